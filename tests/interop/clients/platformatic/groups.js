// Members of a consumer group: what they read, and which partitions they have.
import { setTimeout as pause } from 'node:timers/promises'

import { Consumer, FetchIsolationLevels, MessagesStreamFallbackModes, MessagesStreamModes } from '@platformatic/kafka'

const MAX_WAIT_MS = 500 // leaving waits for the last fetch

// Records that have no key, value or header value are read as null or undefined, by what is missing.
export const decoded = text => (text === null ? null : Buffer.from(text, 'base64'))
const encoded = value => (value === null || value === undefined ? null : value.toString('base64'))

function received ({ partition, key, value, offset, headerEntries }) {
  const headers = headerEntries.map(([name, header]) => [name.toString(), encoded(header)])
  return { partition, key: encoded(key), value: encoded(value), headers, offset: Number(offset) }
}

// Wait for a condition; false if it was not so in time.
async function soon (reached, seconds) {
  const deadline = performance.now() + seconds * 1000
  while (!(await reached())) {
    if (performance.now() > deadline) return false
    await pause(20)
  }
  return true
}

export async function until (what, reached, seconds = 60) {
  if (!(await soon(reached, seconds))) throw new Error(`not in time: ${what}`)
}

function member (connection, given) {
  return new Consumer({
    ...connection,
    groupId: given.group,
    groupProtocol: given.protocol ?? 'classic',
    maxWaitTime: MAX_WAIT_MS,
    ...(given.protocol === 'consumer' ? {} : { heartbeatInterval: 500 })
  })
}

async function read (consumer, given) {
  return await consumer.consume({
    topics: [given.topic],
    mode: MessagesStreamModes.COMMITTED,
    fallbackMode: MessagesStreamFallbackModes.EARLIEST,
    autocommit: false,
    isolationLevel: given.isolation === 'read_committed'
      ? FetchIsolationLevels.READ_COMMITTED
      : FetchIsolationLevels.READ_UNCOMMITTED
  })
}

// Read a topic from its start until there are as many records as wanted or the time is over; commit them.
export async function collect (connection, given) {
  const consumer = member(connection, given)
  const stream = await read(consumer, given)
  const records = []
  const next = new Map()
  let failure = null
  stream.on('error', error => { failure = error })
  stream.on('data', message => {
    records.push(received(message))
    const { topic, partition, offset, leaderEpoch } = message
    next.set(partition, { topic, partition, offset: offset + 1n, leaderEpoch })
  })
  await soon(() => failure !== null || records.length >= given.count, given.timeout_s ?? 60)
  if (failure !== null) throw failure
  if (next.size > 0) await consumer.commit({ offsets: [...next.values()] })
  await consumer.close(true)
  return records
}

async function join (connection, given) {
  const consumer = member(connection, given)
  const stream = await read(consumer, given)
  stream.resume()
  return consumer
}

function partitions (consumer) {
  return (consumer.assignments ?? []).flatMap(({ partitions }) => partitions).sort((one, other) => one - other)
}

// Let two members of a group share a topic, then let the first one leave.
export async function rebalance (connection, given) {
  const [one, other] = await Promise.all([join(connection, given), join(connection, given)])
  let first, second, after
  await until('both members share the partitions', () => {
    first = partitions(one)
    second = partitions(other)
    const all = [...first, ...second]
    return first.length > 0 && second.length > 0 && all.length === given.partitions &&
      new Set(all).size === given.partitions
  })
  await one.close(true)
  await until('the member left has all partitions', () => {
    after = partitions(other)
    return after.length === given.partitions
  })
  await other.close(true)
  return { first, second, after }
}
