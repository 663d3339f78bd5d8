// One operation of the interop suite with kafkajs.
//
// In: an operation's name as the argument, its parameters as JSON on stdin. Out: one JSON object on stdout.
// It must never print anything else on stdout, and ends with an exit code other than 0 after any failure.
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import zlib from 'node:zlib'

import lz4 from '@2l/kafkajs-lz4'
import kafkajs from 'kafkajs'
import snappy from 'kafkajs-snappy'

import { collect, rebalance, until } from './groups.js'

const { CompressionCodecs, CompressionTypes, Kafka, logLevel } = kafkajs
const LZ4 = lz4.default ?? lz4

CompressionCodecs[CompressionTypes.Snappy] = snappy
CompressionCodecs[CompressionTypes.LZ4] = new LZ4().codec
// Of the packages that bring zstd to kafkajs none is kept any more; Node has had it itself since 22.15.
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: encoder => promisify(zlib.zstdCompress)(encoder.buffer),
  decompress: buffer => promisify(zlib.zstdDecompress)(buffer)
})

const codecs = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD
}
const acknowledgements = { 0: 0, 1: 1, all: -1 }
const MAX_BATCH_BYTES = 900_000 // brokers take 1 MiB
const noConsumerProtocol = { skipped: 'only the classic group protocol' }

const decoded = text => (text === null ? null : Buffer.from(text, 'base64'))

function connect (given, security = {}) {
  return new Kafka({
    clientId: 'interop-kafkajs',
    brokers: given.bootstrap.split(','),
    logLevel: logLevel.WARN,
    logCreator: () => entry => process.stderr.write(`${JSON.stringify(entry.log)}\n`),
    ...security
  })
}

function messages (records) {
  return records.map(({ partition, key, value, headers }) => {
    const gathered = {}
    for (const [name, header] of headers) {
      gathered[name] = [...(gathered[name] ?? []), decoded(header)]
    }
    return { partition, key: decoded(key), value: decoded(value), headers: gathered }
  })
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
  if (given.records.some(({ headers }) => headers.some(([, value]) => value === null))) {
    return { skipped: 'no header without a value can be written' }
  }
  const producer = connect(given, security).producer({
    allowAutoTopicCreation: false,
    idempotent: given.acks === 'all',
    maxInFlightRequests: given.acks === 'all' ? 1 : null
  })
  await producer.connect()
  for (const records of batches(given.records)) {
    await producer.send({
      topic: given.topic,
      acks: acknowledgements[given.acks],
      compression: codecs[given.codec],
      messages: messages(records)
    })
  }
  await producer.disconnect()
  return { sent: given.records.length }
}

async function consume (given, security) {
  if (given.protocol === 'consumer') return noConsumerProtocol
  return { records: await collect(connect(given, security), given) }
}

async function transactions (given) {
  const producer = connect(given).producer({
    allowAutoTopicCreation: false,
    idempotent: true,
    maxInFlightRequests: 1,
    transactionalId: given.transactional_id
  })
  await producer.connect()
  const committed = await producer.transaction()
  await committed.send({ topic: given.topic, messages: messages(given.committed) })
  await committed.commit()
  const aborted = await producer.transaction()
  await aborted.send({ topic: given.topic, messages: messages(given.aborted) })
  await aborted.abort()
  await producer.disconnect()
  return { committed: given.committed.length }
}

async function admin (given) {
  const administrator = connect(given).admin()
  await administrator.connect()
  await administrator.createTopics({
    waitForLeaders: true,
    topics: [{ topic: given.topic, numPartitions: given.partitions, replicationFactor: given.replication }]
  })
  let described
  await until('every partition has a leader', async () => {
    const { topics } = await administrator.fetchTopicMetadata({ topics: [given.topic] })
    described = topics[0].partitions
    return described.length === given.partitions && described.every(({ leader }) => leader >= 0)
  })
  const { brokers } = await administrator.describeCluster()
  const offsets = await administrator.fetchTopicOffsets(given.topic)
  await administrator.listGroups()
  await administrator.deleteTopics({ topics: [given.topic] })
  await administrator.disconnect()
  return {
    nodes: brokers.map(({ nodeId, host, port }) => ({ id: nodeId, host, port })),
    partitions: described.length,
    offsets: Object.fromEntries(offsets.map(({ partition, offset }) => [partition, Number(offset)]))
  }
}

async function roundtripSaslTls (given) {
  const { user: username, password } = given
  const security = {
    ssl: { ca: [readFileSync(given.ca_file)] },
    sasl: { mechanism: given.mechanism.toLowerCase(), username, password }
  }
  await produce({ ...given, acks: 'all', codec: 'none' }, security)
  return await consume({ ...given, count: given.records.length }, security)
}

const operations = {
  produce,
  consume,
  transactions,
  rebalance: async given => given.protocol === 'consumer' ? noConsumerProtocol : await rebalance(connect(given), given),
  share: async () => ({ skipped: 'no share consumer' }),
  admin,
  roundtrip_sasl_tls: roundtripSaslTls
}

try {
  const operation = operations[process.argv[2]]
  if (operation === undefined) throw new Error('usage: client.js OPERATION < parameters.json')
  const result = await operation(JSON.parse(readFileSync(0, 'utf8')))
  process.stdout.write(`${JSON.stringify(result)}\n`)
} catch (error) {
  process.stderr.write(`${error.stack ?? ''}\n${error.message ?? error}\n`)
  process.exit(1) // at once: what is still connected would keep it running
}
