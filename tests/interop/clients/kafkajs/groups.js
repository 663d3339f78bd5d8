// Members of a consumer group: what they read, and which partitions they have.
import { setTimeout as pause } from 'node:timers/promises'

const MAX_WAIT_MS = 500 // leaving waits for the last fetch

const encoded = value => (value === null || value === undefined ? null : value.toString('base64'))

function received ({ partition, message }) {
  const headers = Object.entries(message.headers ?? {})
    .flatMap(([name, values]) => [values].flat().map(value => [name, encoded(value)]))
  const { key, value, offset } = message
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

// Read a topic from its start until there are as many records as wanted or the time is over; commit them.
export async function collect (kafka, given) {
  const consumer = kafka.consumer({
    groupId: given.group,
    readUncommitted: given.isolation !== 'read_committed',
    maxWaitTimeInMs: MAX_WAIT_MS
  })
  const records = []
  const next = new Map()
  let crash = null
  // Nothing is committed before the end: after joining again, everything is read again.
  consumer.on(consumer.events.GROUP_JOIN, () => {
    records.length = 0
    next.clear()
  })
  // It joins again by itself after most failures, such as a coordinator that is still loading.
  consumer.on(consumer.events.CRASH, ({ payload }) => { if (!payload.restart) crash = payload.error })
  await consumer.connect()
  await consumer.subscribe({ topic: given.topic, fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachMessage: async read => {
      records.push(received(read))
      next.set(read.partition, `${BigInt(read.message.offset) + 1n}`)
    }
  })
  await soon(() => crash !== null || records.length >= given.count, given.timeout_s ?? 60)
  if (crash !== null) throw crash
  await consumer.commitOffsets([...next].map(([partition, offset]) => ({ topic: given.topic, partition, offset })))
  await consumer.disconnect()
  return records
}

async function join (kafka, given) {
  const consumer = kafka.consumer({ groupId: given.group, heartbeatInterval: 500, maxWaitTimeInMs: MAX_WAIT_MS })
  const member = { consumer, has: [] }
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    member.has = [...(payload.memberAssignment[given.topic] ?? [])].sort((one, other) => one - other)
  })
  consumer.on(consumer.events.REBALANCING, () => { member.has = [] })
  await consumer.connect()
  await consumer.subscribe({ topic: given.topic, fromBeginning: true })
  await consumer.run({ eachMessage: async () => {} })
  return member
}

// Let two members of a group share a topic, then let the first one leave.
export async function rebalance (kafka, given) {
  const [one, other] = await Promise.all([join(kafka, given), join(kafka, given)])
  await until('both members share the partitions', () => {
    const all = [...one.has, ...other.has]
    return one.has.length > 0 && other.has.length > 0 && all.length === given.partitions &&
      new Set(all).size === given.partitions
  })
  const [first, second] = [one.has, other.has]
  await one.consumer.disconnect()
  await until('the member left has all partitions', () => other.has.length === given.partitions)
  const after = other.has
  await other.consumer.disconnect()
  return { first, second, after }
}
