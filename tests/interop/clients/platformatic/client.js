// One operation of the interop suite with @platformatic/kafka.
//
// In: an operation's name as the argument, its parameters as JSON on stdin. Out: one JSON object on stdout.
// It must never print anything else on stdout, and ends with an exit code other than 0 after any failure.
import { readFileSync } from 'node:fs'

import { Admin, ListOffsetTimestamps, ProduceAcks, Producer } from '@platformatic/kafka'

import { collect, decoded, rebalance, until } from './groups.js'

const MAX_BATCH_BYTES = 900_000 // brokers take 1 MiB
const acknowledgements = { 0: ProduceAcks.NO_RESPONSE, 1: ProduceAcks.LEADER, all: ProduceAcks.ALL }

function connection (given, security = {}) {
  return { clientId: 'interop-platformatic', bootstrapBrokers: given.bootstrap.split(','), strict: true, ...security }
}

function messages (topic, records) {
  return records.map(({ partition, key, value, headers }) => ({
    topic,
    partition,
    key: decoded(key),
    value: decoded(value),
    // Two equal names are two keys of this map: buffers are compared by identity.
    headers: new Map(headers.map(([name, header]) => [Buffer.from(name), decoded(header)]))
  }))
}

// Cut records into runs that fit into one batch: the library makes one of all that it is given for a partition.
function * batches (records) {
  let [run, size] = [[], 0]
  for (const record of records) {
    const more = (record.value?.length ?? 0) * 0.75
    if (run.length > 0 && size + more > MAX_BATCH_BYTES) {
      yield run
      run = []
      size = 0
    }
    run.push(record)
    size += more
  }
  yield run
}

async function produce (given, security) {
  const producer = new Producer({ ...connection(given, security), idempotent: given.acks === 'all' })
  for (const records of batches(given.records)) {
    const sent = { acks: acknowledgements[given.acks], compression: given.codec }
    await producer.send({ ...sent, messages: messages(given.topic, records) })
  }
  await producer.close()
  return { sent: given.records.length }
}

async function consume (given, security) {
  return { records: await collect(connection(given, security), given) }
}

async function transactions (given) {
  const producer = new Producer({
    ...connection(given), idempotent: true, transactionalId: given.transactional_id
  })
  const committed = await producer.beginTransaction()
  await committed.send({ messages: messages(given.topic, given.committed) })
  await committed.commit()
  const aborted = await producer.beginTransaction()
  await aborted.send({ messages: messages(given.topic, given.aborted) })
  await aborted.abort()
  await producer.close()
  return { committed: given.committed.length }
}

async function admin (given) {
  const administrator = new Admin(connection(given))
  await administrator.createTopics({
    topics: [given.topic], partitions: given.partitions, replicas: given.replication
  })
  let described
  await until('every partition has a leader', async () => {
    try {
      described = await administrator.metadata({ topics: [given.topic], forceUpdate: true })
    } catch {
      return false // as long as a partition has no leader
    }
    const { partitions } = described.topics.get(given.topic)
    return partitions.length === given.partitions && partitions.every(({ leader }) => leader >= 0)
  })
  const wanted = described.topics.get(given.topic).partitions
    .map((_, partitionIndex) => ({ partitionIndex, timestamp: ListOffsetTimestamps.LATEST }))
  const [listed] = await administrator.listOffsets({ topics: [{ name: given.topic, partitions: wanted }] })
  await administrator.listGroups()
  await administrator.deleteTopics({ topics: [given.topic] })
  await administrator.close()
  return {
    nodes: [...described.brokers].map(([id, { host, port }]) => ({ id, host, port })),
    partitions: wanted.length,
    offsets: Object.fromEntries(listed.partitions.map(({ partitionIndex, offset }) => [partitionIndex, Number(offset)]))
  }
}

async function roundtripSaslTls (given) {
  const security = {
    tls: { ca: [readFileSync(given.ca_file)] },
    sasl: { mechanism: given.mechanism, username: given.user, password: given.password }
  }
  await produce({ ...given, acks: 'all', codec: 'none' }, security)
  return await consume({ ...given, count: given.records.length }, security)
}

const operations = {
  produce,
  consume,
  transactions,
  rebalance: async given => await rebalance(connection(given), given),
  share: async () => ({ skipped: 'no share consumer' }),
  admin,
  roundtrip_sasl_tls: roundtripSaslTls
}

// The library's errors are trees: the reason is in their leaves.
function reasons (error) {
  const below = [...(error.errors ?? []), ...(error.cause ? [error.cause] : [])]
  return [error.message, ...below.flatMap(reasons)]
}

try {
  const operation = operations[process.argv[2]]
  if (operation === undefined) throw new Error('usage: client.js OPERATION < parameters.json')
  const result = await operation(JSON.parse(readFileSync(0, 'utf8')))
  process.stdout.write(`${JSON.stringify(result)}\n`)
} catch (error) {
  process.stderr.write(`${error.stack ?? ''}\n${reasons(error).join(': ')}\n`)
  process.exit(1) // at once: what is still connected would keep it running
}
