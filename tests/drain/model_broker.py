"""A share-partition leader as small as it can be, for properties: one member, exact bookkeeping, strict about rules.

In: requests of a session. Out: answers. Must never: accept what a real broker would refuse (drain.md §3.2, §3.3).
"""

from __future__ import annotations

from collections.abc import Callable

from shareproxy.drain.session import SessionRequest, SessionResponse, SharePartition
from shareproxy.protocol.messages import ShareAcknowledgeRequest, ShareFetchRequest
from tests.drain.share_answers import acknowledge_answer, acknowledged, acks_in, fetch_answer, fetched, key, listed_in

ACQUIRED, FREE, DONE = "acquired", "free", "done"


class ModelBroker:
    """Serves partitions with a fixed number of records.

    Args:
        judge: called with each offset that an acknowledgement settles, and its type.
    """

    def __init__(
        self, partitions: list[SharePartition], records: int, judge: Callable[[SharePartition, int, int], None]
    ) -> None:
        self.by_key = {key(partition): partition for partition in partitions}
        self.state = {partition: [FREE] * records for partition in partitions}
        self.count = {partition: [0] * records for partition in partitions}
        self.epoch = 0
        self.members: set[SharePartition] = set()
        self._judge = judge

    def drop(self) -> None:
        """The connection is gone: the session ends, what was acquired is free."""
        self.epoch = 0
        self.members.clear()
        for states in self.state.values():
            states[:] = [FREE if each == ACQUIRED else each for each in states]

    def lose_lock(self, partition: SharePartition, first: int, last: int) -> None:
        """The lock runs out unseen."""
        states = self.state[partition]
        states[first : last + 1] = [FREE if each == ACQUIRED else each for each in states[first : last + 1]]

    def serve(self, request: SessionRequest) -> SessionResponse:
        """Answer as a broker does."""
        closing = request.share_session_epoch == -1
        assert closing or request.share_session_epoch == self.epoch
        codes = {
            self.by_key[each]: self._acknowledge(each, batches, request) for each, batches in acks_in(request).items()
        }
        if closing:
            assert isinstance(request, ShareAcknowledgeRequest)
            self.drop()
            return acknowledge_answer(*(acknowledged(p, error=code) for p, code in codes.items()))
        if request.share_session_epoch == 0:
            assert isinstance(request, ShareFetchRequest)
            assert not codes
        self.epoch += 1
        if isinstance(request, ShareAcknowledgeRequest):
            return acknowledge_answer(*(acknowledged(p, error=code) for p, code in codes.items()))
        self.members |= {self.by_key[each] for each in listed_in(request)}
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                gone = self.by_key[topic.topic_id, index]
                assert ACQUIRED not in self.state[gone], "forgotten while it is held"
                self.members.remove(gone)
        acquired = {partition: self._acquire(partition, request.max_records) for partition in self.members}
        return fetch_answer(
            *(
                fetched(partition, ranges, ack_error=codes.get(partition, 0))
                for partition in self.members | codes.keys()
                if (ranges := acquired.get(partition, [])) or partition in codes
            )
        )

    def _acquire(self, partition: SharePartition, most: int) -> list[tuple[int, int, int]]:
        ranges: list[tuple[int, int, int]] = []
        for offset, state in enumerate(self.state[partition]):
            if most > 0 and state == FREE:
                most -= 1
                self.state[partition][offset] = ACQUIRED
                self.count[partition][offset] += 1
                ranges.append((offset, offset, self.count[partition][offset]))
        return ranges

    def _acknowledge(
        self, where: tuple[bytes, int], batches: list[tuple[int, int, list[int]]], request: SessionRequest
    ) -> int:
        partition = self.by_key[where]
        settled: list[tuple[int, int]] = []
        before = -1
        for first, last, kinds in batches:
            assert before < first <= last, "not ascending, or overlapping: 42"
            assert len(kinds) in (1, last - first + 1), "neither one type nor one per offset: 42"
            before = last
            settled += [(o, kinds[0] if len(kinds) == 1 else kinds[o - first]) for o in range(first, last + 1)]
        renewals = [kind for _, kind in settled if kind == 4]
        assert request.is_renew_ack or not renewals, "RENEW without the flag: 42"
        assert not renewals or isinstance(request, ShareAcknowledgeRequest)
        if any(self.state[partition][offset] != ACQUIRED for offset, _ in settled):
            return 121
        for offset, kind in settled:
            self._judge(partition, offset, kind)
            if kind != 4:
                self.state[partition][offset] = FREE if kind == 2 else DONE
        return 0
