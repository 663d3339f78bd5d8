"""A worker that reads JSON orders, tries again what may work later, and rejects what never will.

    export SHAREPROXY_BOOTSTRAP_SERVER=127.0.0.1:9092
    python examples/worker.py orders order-workers

Start as many as you like, on as many machines as you like, also for a topic of one partition. SIGTERM lets each finish
what it has begun; kill -9 loses nothing either: the others get what it held.
"""

import asyncio
import json
import os
import random
import sys

import shareproxy
from shareproxy import RejectRecord, Retriable, Retry, ShareRecord

# to watch what happens when things go wrong: FAIL_SHARE=0.2 has a fifth of the first tries fail
FAIL_SHARE = float(os.environ.get("FAIL_SHARE", "0"))
ORDER_SECONDS = float(os.environ.get("ORDER_SECONDS", "0.01"))


async def handle(record: ShareRecord) -> None:
    """Work on one order; it is accepted when this returns."""
    order = record.value
    if not isinstance(order, dict) or "id" not in order:
        raise RejectRecord(f"an order has an id, and {record} has none")
    if record.delivery_count == 1 and random.random() < FAIL_SHARE:
        raise Retriable("the warehouse did not answer", after_s=0.1)
    await asyncio.sleep(ORDER_SECONDS)
    # what this does must be idempotent: the same order may come twice
    print(f"order {order['id']} done, delivery {record.delivery_count}", flush=True)


if __name__ == "__main__":
    topic, group = sys.argv[1:3]
    shareproxy.run_worker(
        handle,
        group=group,
        topics=[topic],
        concurrency=8,
        time_limit=20.0,
        retry=Retry(first_s=0.5, max_s=30.0, in_place=3),
        value_deserializer=json.loads,
        health=os.environ.get("HEALTH"),  # such as 127.0.0.1:9465
    )
