"""Name Kafka's APIs for people: the keys that Kafka 4.4 has, and those that older brokers had.

In: an api_key. Out: the name its messages have, or the number where the key is not known.
Must never: be asked what may pass; unknown keys pass like known ones.
"""

from __future__ import annotations

from typing import Final

API_NAMES: Final = (
    # 0 to 9
    *("Produce", "Fetch", "ListOffsets", "Metadata", "LeaderAndIsr", "StopReplica", "UpdateMetadata"),
    *("ControlledShutdown", "OffsetCommit", "OffsetFetch"),
    # 10 to 19
    *("FindCoordinator", "JoinGroup", "Heartbeat", "LeaveGroup", "SyncGroup", "DescribeGroups", "ListGroups"),
    *("SaslHandshake", "ApiVersions", "CreateTopics"),
    # 20 to 29
    *("DeleteTopics", "DeleteRecords", "InitProducerId", "OffsetForLeaderEpoch", "AddPartitionsToTxn"),
    *("AddOffsetsToTxn", "EndTxn", "WriteTxnMarkers", "TxnOffsetCommit", "DescribeAcls"),
    # 30 to 39
    *("CreateAcls", "DeleteAcls", "DescribeConfigs", "AlterConfigs", "AlterReplicaLogDirs", "DescribeLogDirs"),
    *("SaslAuthenticate", "CreatePartitions", "CreateDelegationToken", "RenewDelegationToken"),
    # 40 to 49
    *("ExpireDelegationToken", "DescribeDelegationToken", "DeleteGroups", "ElectLeaders", "IncrementalAlterConfigs"),
    *("AlterPartitionReassignments", "ListPartitionReassignments", "OffsetDelete", "DescribeClientQuotas"),
    "AlterClientQuotas",
    # 50 to 59
    *("DescribeUserScramCredentials", "AlterUserScramCredentials", "Vote", "BeginQuorumEpoch", "EndQuorumEpoch"),
    *("DescribeQuorum", "AlterPartition", "UpdateFeatures", "Envelope", "FetchSnapshot"),
    # 60 to 69
    *("DescribeCluster", "DescribeProducers", "BrokerRegistration", "BrokerHeartbeat", "UnregisterBroker"),
    *("DescribeTransactions", "ListTransactions", "AllocateProducerIds", "ConsumerGroupHeartbeat"),
    "ConsumerGroupDescribe",
    # 70 to 79
    *("ControllerRegistration", "GetTelemetrySubscriptions", "PushTelemetry", "AssignReplicasToDirs"),
    *("ListConfigResources", "DescribeTopicPartitions", "ShareGroupHeartbeat", "ShareGroupDescribe", "ShareFetch"),
    "ShareAcknowledge",
    # 80 to 89
    *("AddRaftVoter", "RemoveRaftVoter", "UpdateRaftVoter", "InitializeShareGroupState", "ReadShareGroupState"),
    *("WriteShareGroupState", "DeleteShareGroupState", "ReadShareGroupStateSummary", "StreamsGroupHeartbeat"),
    "StreamsGroupDescribe",
    # 90 to 94
    *("DescribeShareGroupOffsets", "AlterShareGroupOffsets", "DeleteShareGroupOffsets"),
    *("StreamsGroupTopologyDescriptionUpdate", "UnregisterController"),
)
"""Names in the order of their keys."""


def api_name(api_key: int) -> str:
    """Return the name of an API, the number as text if the key is not known."""
    return API_NAMES[api_key] if 0 <= api_key < len(API_NAMES) else str(api_key)
