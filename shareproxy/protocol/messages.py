"""Typed messages, one class per struct for all versions.

Generated from protocol_schemas/ by `make generate`; edit the schemas, not this file.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from shareproxy.protocol.message import Message, ProtocolStruct, Request, Response, UnknownTags


class AlterShareGroupOffsetsResponsePartition(ProtocolStruct, gc=False):
    """`AlterShareGroupOffsetsResponsePartition` of AlterShareGroupOffsetsResponse."""

    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    unknown_tags: UnknownTags = ()


class AlterShareGroupOffsetsResponseTopic(ProtocolStruct, gc=False):
    """`AlterShareGroupOffsetsResponseTopic` of AlterShareGroupOffsetsResponse."""

    topic_name: str = ""
    topic_id: bytes = bytes(16)
    partitions: list[AlterShareGroupOffsetsResponsePartition] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class AlterShareGroupOffsetsResponse(Response, gc=False):
    """AlterShareGroupOffsetsResponse 0, API key 91."""

    schema_name: ClassVar[str] = "AlterShareGroupOffsetsResponse"
    api_key: ClassVar[int] = 91
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    first_flexible_version: ClassVar[int] = 0
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    responses: list[AlterShareGroupOffsetsResponseTopic] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ApiVersionsResponseApiVersion(ProtocolStruct, gc=False):
    """`ApiVersion` of ApiVersionsResponse."""

    api_key: int = 0
    min_version: int = 0
    max_version: int = 0
    unknown_tags: UnknownTags = ()


class ApiVersionsResponseSupportedFeatureKey(ProtocolStruct, gc=False):
    """`SupportedFeatureKey` of ApiVersionsResponse."""

    name: str = ""
    min_version: int = 0
    max_version: int = 0
    unknown_tags: UnknownTags = ()


class ApiVersionsResponseFinalizedFeatureKey(ProtocolStruct, gc=False):
    """`FinalizedFeatureKey` of ApiVersionsResponse."""

    name: str = ""
    max_version_level: int = 0
    min_version_level: int = 0
    unknown_tags: UnknownTags = ()


class ApiVersionsResponse(Response, gc=False):
    """ApiVersionsResponse 0-5, API key 18."""

    schema_name: ClassVar[str] = "ApiVersionsResponse"
    api_key: ClassVar[int] = 18
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 5
    first_flexible_version: ClassVar[int] = 3
    error_code: int = 0
    api_keys: list[ApiVersionsResponseApiVersion] = field(default_factory=list)
    throttle_time_ms: int = 0
    supported_features: list[ApiVersionsResponseSupportedFeatureKey] = field(default_factory=list)
    finalized_features_epoch: int = -1
    finalized_features: list[ApiVersionsResponseFinalizedFeatureKey] = field(default_factory=list)
    zk_migration_ready: bool = False
    unknown_tags: UnknownTags = ()


class ConsumerGroupDescribeResponseTopicPartitions(ProtocolStruct, gc=False):
    """`TopicPartitions` of ConsumerGroupDescribeResponse."""

    topic_id: bytes = bytes(16)
    topic_name: str = ""
    partitions: list[int] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ConsumerGroupDescribeResponseAssignment(ProtocolStruct, gc=False):
    """`Assignment` of ConsumerGroupDescribeResponse."""

    topic_partitions: list[ConsumerGroupDescribeResponseTopicPartitions] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ConsumerGroupDescribeResponseMember(ProtocolStruct, gc=False):
    """`Member` of ConsumerGroupDescribeResponse."""

    member_id: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: int = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = field(default_factory=list)
    subscribed_topic_regex: str | None = None
    assignment: ConsumerGroupDescribeResponseAssignment = field(default_factory=ConsumerGroupDescribeResponseAssignment)
    target_assignment: ConsumerGroupDescribeResponseAssignment = field(
        default_factory=ConsumerGroupDescribeResponseAssignment
    )
    member_type: int = -1
    unknown_tags: UnknownTags = ()


class ConsumerGroupDescribeResponseDescribedGroup(ProtocolStruct, gc=False):
    """`DescribedGroup` of ConsumerGroupDescribeResponse."""

    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: list[ConsumerGroupDescribeResponseMember] = field(default_factory=list)
    authorized_operations: int = -2147483648
    unknown_tags: UnknownTags = ()


class ConsumerGroupDescribeResponse(Response, gc=False):
    """ConsumerGroupDescribeResponse 0-1, API key 69."""

    schema_name: ClassVar[str] = "ConsumerGroupDescribeResponse"
    api_key: ClassVar[int] = 69
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 1
    first_flexible_version: ClassVar[int] = 0
    throttle_time_ms: int = 0
    groups: list[ConsumerGroupDescribeResponseDescribedGroup] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class DeleteGroupsResponseDeletableGroupResult(ProtocolStruct, gc=False):
    """`DeletableGroupResult` of DeleteGroupsResponse."""

    group_id: str = ""
    error_code: int = 0
    error_message: str | None = None
    unknown_tags: UnknownTags = ()


class DeleteGroupsResponse(Response, gc=False):
    """DeleteGroupsResponse 0-3, API key 42."""

    schema_name: ClassVar[str] = "DeleteGroupsResponse"
    api_key: ClassVar[int] = 42
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 3
    first_flexible_version: ClassVar[int] = 2
    throttle_time_ms: int = 0
    results: list[DeleteGroupsResponseDeletableGroupResult] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class DeleteShareGroupOffsetsResponseTopic(ProtocolStruct, gc=False):
    """`DeleteShareGroupOffsetsResponseTopic` of DeleteShareGroupOffsetsResponse."""

    topic_name: str = ""
    topic_id: bytes = bytes(16)
    error_code: int = 0
    error_message: str | None = None
    unknown_tags: UnknownTags = ()


class DeleteShareGroupOffsetsResponse(Response, gc=False):
    """DeleteShareGroupOffsetsResponse 0, API key 92."""

    schema_name: ClassVar[str] = "DeleteShareGroupOffsetsResponse"
    api_key: ClassVar[int] = 92
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    first_flexible_version: ClassVar[int] = 0
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    responses: list[DeleteShareGroupOffsetsResponseTopic] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class DescribeClusterBroker(ProtocolStruct, gc=False):
    """`DescribeClusterBroker` of DescribeClusterResponse."""

    broker_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None
    is_fenced: bool = False
    unknown_tags: UnknownTags = ()


class DescribeClusterResponse(Response, gc=False):
    """DescribeClusterResponse 0-2, API key 60."""

    schema_name: ClassVar[str] = "DescribeClusterResponse"
    api_key: ClassVar[int] = 60
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 2
    first_flexible_version: ClassVar[int] = 0
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    endpoint_type: int = 1
    cluster_id: str = ""
    controller_id: int = -1
    brokers: list[DescribeClusterBroker] = field(default_factory=list)
    cluster_authorized_operations: int = -2147483648
    unknown_tags: UnknownTags = ()


class DescribeConfigsSynonym(ProtocolStruct, gc=False):
    """`DescribeConfigsSynonym` of DescribeConfigsResponse."""

    name: str = ""
    value: str | None = ""
    source: int = 0
    unknown_tags: UnknownTags = ()


class DescribeConfigsResourceResult(ProtocolStruct, gc=False):
    """`DescribeConfigsResourceResult` of DescribeConfigsResponse."""

    name: str = ""
    value: str | None = ""
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False
    synonyms: list[DescribeConfigsSynonym] = field(default_factory=list)
    config_type: int = 0
    documentation: str | None = ""
    unknown_tags: UnknownTags = ()


class DescribeConfigsResult(ProtocolStruct, gc=False):
    """`DescribeConfigsResult` of DescribeConfigsResponse."""

    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""
    configs: list[DescribeConfigsResourceResult] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class DescribeConfigsResponse(Response, gc=False):
    """DescribeConfigsResponse 1-4, API key 32."""

    schema_name: ClassVar[str] = "DescribeConfigsResponse"
    api_key: ClassVar[int] = 32
    min_version: ClassVar[int] = 1
    max_version: ClassVar[int] = 4
    first_flexible_version: ClassVar[int] = 4
    throttle_time_ms: int = 0
    results: list[DescribeConfigsResult] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class DescribeGroupsResponseDescribedGroupMember(ProtocolStruct, gc=False):
    """`DescribedGroupMember` of DescribeGroupsResponse."""

    member_id: str = ""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    member_metadata: bytes = b""
    member_assignment: bytes = b""
    unknown_tags: UnknownTags = ()


class DescribeGroupsResponseDescribedGroup(ProtocolStruct, gc=False):
    """`DescribedGroup` of DescribeGroupsResponse."""

    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: list[DescribeGroupsResponseDescribedGroupMember] = field(default_factory=list)
    authorized_operations: int = -2147483648
    unknown_tags: UnknownTags = ()


class DescribeGroupsResponse(Response, gc=False):
    """DescribeGroupsResponse 0-6, API key 15."""

    schema_name: ClassVar[str] = "DescribeGroupsResponse"
    api_key: ClassVar[int] = 15
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 6
    first_flexible_version: ClassVar[int] = 5
    throttle_time_ms: int = 0
    groups: list[DescribeGroupsResponseDescribedGroup] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class DescribeProducersResponseProducerState(ProtocolStruct, gc=False):
    """`ProducerState` of DescribeProducersResponse."""

    producer_id: int = 0
    producer_epoch: int = 0
    last_sequence: int = -1
    last_timestamp: int = -1
    coordinator_epoch: int = 0
    current_txn_start_offset: int = -1
    unknown_tags: UnknownTags = ()


class DescribeProducersResponsePartitionResponse(ProtocolStruct, gc=False):
    """`PartitionResponse` of DescribeProducersResponse."""

    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    active_producers: list[DescribeProducersResponseProducerState] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class DescribeProducersResponseTopicResponse(ProtocolStruct, gc=False):
    """`TopicResponse` of DescribeProducersResponse."""

    name: str = ""
    partitions: list[DescribeProducersResponsePartitionResponse] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class DescribeProducersResponse(Response, gc=False):
    """DescribeProducersResponse 0, API key 61."""

    schema_name: ClassVar[str] = "DescribeProducersResponse"
    api_key: ClassVar[int] = 61
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    first_flexible_version: ClassVar[int] = 0
    throttle_time_ms: int = 0
    topics: list[DescribeProducersResponseTopicResponse] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class DescribeShareGroupOffsetsResponsePartition(ProtocolStruct, gc=False):
    """`DescribeShareGroupOffsetsResponsePartition` of DescribeShareGroupOffsetsResponse."""

    partition_index: int = 0
    start_offset: int = 0
    leader_epoch: int = 0
    lag: int = -1
    error_code: int = 0
    error_message: str | None = None
    unknown_tags: UnknownTags = ()


class DescribeShareGroupOffsetsResponseTopic(ProtocolStruct, gc=False):
    """`DescribeShareGroupOffsetsResponseTopic` of DescribeShareGroupOffsetsResponse."""

    topic_name: str = ""
    topic_id: bytes = bytes(16)
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class DescribeShareGroupOffsetsResponseGroup(ProtocolStruct, gc=False):
    """`DescribeShareGroupOffsetsResponseGroup` of DescribeShareGroupOffsetsResponse."""

    group_id: str = ""
    topics: list[DescribeShareGroupOffsetsResponseTopic] = field(default_factory=list)
    error_code: int = 0
    error_message: str | None = None
    unknown_tags: UnknownTags = ()


class DescribeShareGroupOffsetsResponse(Response, gc=False):
    """DescribeShareGroupOffsetsResponse 0-1, API key 90."""

    schema_name: ClassVar[str] = "DescribeShareGroupOffsetsResponse"
    api_key: ClassVar[int] = 90
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 1
    first_flexible_version: ClassVar[int] = 0
    throttle_time_ms: int = 0
    groups: list[DescribeShareGroupOffsetsResponseGroup] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class DescribeTransactionsResponseTopicData(ProtocolStruct, gc=False):
    """`TopicData` of DescribeTransactionsResponse."""

    topic: str = ""
    partitions: list[int] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class DescribeTransactionsResponseTransactionState(ProtocolStruct, gc=False):
    """`TransactionState` of DescribeTransactionsResponse."""

    error_code: int = 0
    transactional_id: str = ""
    transaction_state: str = ""
    transaction_timeout_ms: int = 0
    transaction_start_time_ms: int = 0
    producer_id: int = 0
    producer_epoch: int = 0
    topics: list[DescribeTransactionsResponseTopicData] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class DescribeTransactionsResponse(Response, gc=False):
    """DescribeTransactionsResponse 0, API key 65."""

    schema_name: ClassVar[str] = "DescribeTransactionsResponse"
    api_key: ClassVar[int] = 65
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    first_flexible_version: ClassVar[int] = 0
    throttle_time_ms: int = 0
    transaction_states: list[DescribeTransactionsResponseTransactionState] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class FetchResponseEpochEndOffset(ProtocolStruct, gc=False):
    """`EpochEndOffset` of FetchResponse."""

    epoch: int = -1
    end_offset: int = -1
    unknown_tags: UnknownTags = ()


class FetchResponseLeaderIdAndEpoch(ProtocolStruct, gc=False):
    """`LeaderIdAndEpoch` of FetchResponse."""

    leader_id: int = -1
    leader_epoch: int = -1
    unknown_tags: UnknownTags = ()


class FetchResponseSnapshotId(ProtocolStruct, gc=False):
    """`SnapshotId` of FetchResponse."""

    end_offset: int = -1
    epoch: int = -1
    unknown_tags: UnknownTags = ()


class FetchResponseAbortedTransaction(ProtocolStruct, gc=False):
    """`AbortedTransaction` of FetchResponse."""

    producer_id: int = 0
    first_offset: int = 0
    unknown_tags: UnknownTags = ()


class FetchResponsePartitionData(ProtocolStruct, gc=False):
    """`PartitionData` of FetchResponse."""

    partition_index: int = 0
    error_code: int = 0
    high_watermark: int = 0
    last_stable_offset: int = -1
    log_start_offset: int = -1
    diverging_epoch: FetchResponseEpochEndOffset = field(default_factory=FetchResponseEpochEndOffset)
    current_leader: FetchResponseLeaderIdAndEpoch = field(default_factory=FetchResponseLeaderIdAndEpoch)
    snapshot_id: FetchResponseSnapshotId = field(default_factory=FetchResponseSnapshotId)
    aborted_transactions: list[FetchResponseAbortedTransaction] | None = field(default_factory=list)
    preferred_read_replica: int = -1
    records: bytes | None = None
    unknown_tags: UnknownTags = ()


class FetchableTopicResponse(ProtocolStruct, gc=False):
    """`FetchableTopicResponse` of FetchResponse."""

    topic: str = ""
    topic_id: bytes = bytes(16)
    partitions: list[FetchResponsePartitionData] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class FetchResponseNodeEndpoint(ProtocolStruct, gc=False):
    """`NodeEndpoint` of FetchResponse."""

    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None
    unknown_tags: UnknownTags = ()


class FetchResponse(Response, gc=False):
    """FetchResponse 4-18, API key 1."""

    schema_name: ClassVar[str] = "FetchResponse"
    api_key: ClassVar[int] = 1
    min_version: ClassVar[int] = 4
    max_version: ClassVar[int] = 18
    first_flexible_version: ClassVar[int] = 12
    throttle_time_ms: int = 0
    error_code: int = 0
    session_id: int = 0
    responses: list[FetchableTopicResponse] = field(default_factory=list)
    node_endpoints: list[FetchResponseNodeEndpoint] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class FindCoordinatorResponseCoordinator(ProtocolStruct, gc=False):
    """`Coordinator` of FindCoordinatorResponse."""

    key: str = ""
    node_id: int = 0
    host: str = ""
    port: int = 0
    error_code: int = 0
    error_message: str | None = ""
    unknown_tags: UnknownTags = ()


class FindCoordinatorResponse(Response, gc=False):
    """FindCoordinatorResponse 0-6, API key 10."""

    schema_name: ClassVar[str] = "FindCoordinatorResponse"
    api_key: ClassVar[int] = 10
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 6
    first_flexible_version: ClassVar[int] = 3
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    node_id: int = 0
    host: str = ""
    port: int = 0
    coordinators: list[FindCoordinatorResponseCoordinator] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class IncrementalAlterConfigsResponseAlterConfigsResourceResponse(ProtocolStruct, gc=False):
    """`AlterConfigsResourceResponse` of IncrementalAlterConfigsResponse."""

    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""
    unknown_tags: UnknownTags = ()


class IncrementalAlterConfigsResponse(Response, gc=False):
    """IncrementalAlterConfigsResponse 0-1, API key 44."""

    schema_name: ClassVar[str] = "IncrementalAlterConfigsResponse"
    api_key: ClassVar[int] = 44
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 1
    first_flexible_version: ClassVar[int] = 1
    throttle_time_ms: int = 0
    responses: list[IncrementalAlterConfigsResponseAlterConfigsResourceResponse] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ListGroupsResponseListedGroup(ProtocolStruct, gc=False):
    """`ListedGroup` of ListGroupsResponse."""

    group_id: str = ""
    protocol_type: str = ""
    group_state: str = ""
    group_type: str = ""
    unknown_tags: UnknownTags = ()


class ListGroupsResponse(Response, gc=False):
    """ListGroupsResponse 0-5, API key 16."""

    schema_name: ClassVar[str] = "ListGroupsResponse"
    api_key: ClassVar[int] = 16
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 5
    first_flexible_version: ClassVar[int] = 3
    throttle_time_ms: int = 0
    error_code: int = 0
    groups: list[ListGroupsResponseListedGroup] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ListOffsetsPartitionResponse(ProtocolStruct, gc=False):
    """`ListOffsetsPartitionResponse` of ListOffsetsResponse."""

    partition_index: int = 0
    error_code: int = 0
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1
    unknown_tags: UnknownTags = ()


class ListOffsetsTopicResponse(ProtocolStruct, gc=False):
    """`ListOffsetsTopicResponse` of ListOffsetsResponse."""

    name: str = ""
    partitions: list[ListOffsetsPartitionResponse] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ListOffsetsResponse(Response, gc=False):
    """ListOffsetsResponse 1-11, API key 2."""

    schema_name: ClassVar[str] = "ListOffsetsResponse"
    api_key: ClassVar[int] = 2
    min_version: ClassVar[int] = 1
    max_version: ClassVar[int] = 11
    first_flexible_version: ClassVar[int] = 6
    throttle_time_ms: int = 0
    topics: list[ListOffsetsTopicResponse] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ListTransactionsResponseTransactionState(ProtocolStruct, gc=False):
    """`TransactionState` of ListTransactionsResponse."""

    transactional_id: str = ""
    producer_id: int = 0
    transaction_state: str = ""
    unknown_tags: UnknownTags = ()


class ListTransactionsResponse(Response, gc=False):
    """ListTransactionsResponse 0-2, API key 66."""

    schema_name: ClassVar[str] = "ListTransactionsResponse"
    api_key: ClassVar[int] = 66
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 2
    first_flexible_version: ClassVar[int] = 0
    throttle_time_ms: int = 0
    error_code: int = 0
    unknown_state_filters: list[str] = field(default_factory=list)
    transaction_states: list[ListTransactionsResponseTransactionState] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class MetadataResponseBroker(ProtocolStruct, gc=False):
    """`MetadataResponseBroker` of MetadataResponse."""

    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None
    unknown_tags: UnknownTags = ()


class MetadataResponsePartition(ProtocolStruct, gc=False):
    """`MetadataResponsePartition` of MetadataResponse."""

    error_code: int = 0
    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = -1
    replica_nodes: list[int] = field(default_factory=list)
    isr_nodes: list[int] = field(default_factory=list)
    offline_replicas: list[int] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class MetadataResponseTopic(ProtocolStruct, gc=False):
    """`MetadataResponseTopic` of MetadataResponse."""

    error_code: int = 0
    name: str | None = ""
    topic_id: bytes = bytes(16)
    is_internal: bool = False
    partitions: list[MetadataResponsePartition] = field(default_factory=list)
    topic_authorized_operations: int = -2147483648
    unknown_tags: UnknownTags = ()


class MetadataResponse(Response, gc=False):
    """MetadataResponse 0-13, API key 3."""

    schema_name: ClassVar[str] = "MetadataResponse"
    api_key: ClassVar[int] = 3
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 13
    first_flexible_version: ClassVar[int] = 9
    throttle_time_ms: int = 0
    brokers: list[MetadataResponseBroker] = field(default_factory=list)
    cluster_id: str | None = None
    controller_id: int = -1
    topics: list[MetadataResponseTopic] = field(default_factory=list)
    cluster_authorized_operations: int = -2147483648
    error_code: int = 0
    unknown_tags: UnknownTags = ()


class OffsetCommitResponsePartition(ProtocolStruct, gc=False):
    """`OffsetCommitResponsePartition` of OffsetCommitResponse."""

    partition_index: int = 0
    error_code: int = 0
    unknown_tags: UnknownTags = ()


class OffsetCommitResponseTopic(ProtocolStruct, gc=False):
    """`OffsetCommitResponseTopic` of OffsetCommitResponse."""

    name: str = ""
    topic_id: bytes = bytes(16)
    partitions: list[OffsetCommitResponsePartition] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class OffsetCommitResponse(Response, gc=False):
    """OffsetCommitResponse 2-10, API key 8."""

    schema_name: ClassVar[str] = "OffsetCommitResponse"
    api_key: ClassVar[int] = 8
    min_version: ClassVar[int] = 2
    max_version: ClassVar[int] = 10
    first_flexible_version: ClassVar[int] = 8
    throttle_time_ms: int = 0
    topics: list[OffsetCommitResponseTopic] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class OffsetFetchResponsePartition(ProtocolStruct, gc=False):
    """`OffsetFetchResponsePartition` of OffsetFetchResponse."""

    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    metadata: str | None = ""
    error_code: int = 0
    unknown_tags: UnknownTags = ()


class OffsetFetchResponseTopic(ProtocolStruct, gc=False):
    """`OffsetFetchResponseTopic` of OffsetFetchResponse."""

    name: str = ""
    partitions: list[OffsetFetchResponsePartition] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class OffsetFetchResponsePartitions(ProtocolStruct, gc=False):
    """`OffsetFetchResponsePartitions` of OffsetFetchResponse."""

    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    metadata: str | None = ""
    error_code: int = 0
    unknown_tags: UnknownTags = ()


class OffsetFetchResponseTopics(ProtocolStruct, gc=False):
    """`OffsetFetchResponseTopics` of OffsetFetchResponse."""

    name: str = ""
    topic_id: bytes = bytes(16)
    partitions: list[OffsetFetchResponsePartitions] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class OffsetFetchResponseGroup(ProtocolStruct, gc=False):
    """`OffsetFetchResponseGroup` of OffsetFetchResponse."""

    group_id: str = ""
    topics: list[OffsetFetchResponseTopics] = field(default_factory=list)
    error_code: int = 0
    unknown_tags: UnknownTags = ()


class OffsetFetchResponse(Response, gc=False):
    """OffsetFetchResponse 1-10, API key 9."""

    schema_name: ClassVar[str] = "OffsetFetchResponse"
    api_key: ClassVar[int] = 9
    min_version: ClassVar[int] = 1
    max_version: ClassVar[int] = 10
    first_flexible_version: ClassVar[int] = 6
    throttle_time_ms: int = 0
    topics: list[OffsetFetchResponseTopic] = field(default_factory=list)
    error_code: int = 0
    groups: list[OffsetFetchResponseGroup] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ProduceResponseBatchIndexAndErrorMessage(ProtocolStruct, gc=False):
    """`BatchIndexAndErrorMessage` of ProduceResponse."""

    batch_index: int = 0
    batch_index_error_message: str | None = None
    unknown_tags: UnknownTags = ()


class ProduceResponseLeaderIdAndEpoch(ProtocolStruct, gc=False):
    """`LeaderIdAndEpoch` of ProduceResponse."""

    leader_id: int = -1
    leader_epoch: int = -1
    unknown_tags: UnknownTags = ()


class ProduceResponsePartitionProduceResponse(ProtocolStruct, gc=False):
    """`PartitionProduceResponse` of ProduceResponse."""

    index: int = 0
    error_code: int = 0
    base_offset: int = 0
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: list[ProduceResponseBatchIndexAndErrorMessage] = field(default_factory=list)
    error_message: str | None = None
    current_leader: ProduceResponseLeaderIdAndEpoch = field(default_factory=ProduceResponseLeaderIdAndEpoch)
    unknown_tags: UnknownTags = ()


class ProduceResponseTopicProduceResponse(ProtocolStruct, gc=False):
    """`TopicProduceResponse` of ProduceResponse."""

    name: str = ""
    topic_id: bytes = bytes(16)
    partition_responses: list[ProduceResponsePartitionProduceResponse] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ProduceResponseNodeEndpoint(ProtocolStruct, gc=False):
    """`NodeEndpoint` of ProduceResponse."""

    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None
    unknown_tags: UnknownTags = ()


class ProduceResponse(Response, gc=False):
    """ProduceResponse 3-13, API key 0."""

    schema_name: ClassVar[str] = "ProduceResponse"
    api_key: ClassVar[int] = 0
    min_version: ClassVar[int] = 3
    max_version: ClassVar[int] = 13
    first_flexible_version: ClassVar[int] = 9
    responses: list[ProduceResponseTopicProduceResponse] = field(default_factory=list)
    throttle_time_ms: int = 0
    node_endpoints: list[ProduceResponseNodeEndpoint] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ReadShareGroupStateResponseStateBatch(ProtocolStruct, gc=False):
    """`StateBatch` of ReadShareGroupStateResponse."""

    first_offset: int = 0
    last_offset: int = 0
    delivery_state: int = 0
    delivery_count: int = 0
    unknown_tags: UnknownTags = ()


class ReadShareGroupStateResponsePartitionResult(ProtocolStruct, gc=False):
    """`PartitionResult` of ReadShareGroupStateResponse."""

    partition: int = 0
    error_code: int = 0
    error_message: str | None = None
    state_epoch: int = 0
    start_offset: int = 0
    state_batches: list[ReadShareGroupStateResponseStateBatch] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ReadShareGroupStateResponseReadStateResult(ProtocolStruct, gc=False):
    """`ReadStateResult` of ReadShareGroupStateResponse."""

    topic_id: bytes = bytes(16)
    partitions: list[ReadShareGroupStateResponsePartitionResult] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ReadShareGroupStateResponse(Response, gc=False):
    """ReadShareGroupStateResponse 0, API key 84."""

    schema_name: ClassVar[str] = "ReadShareGroupStateResponse"
    api_key: ClassVar[int] = 84
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    first_flexible_version: ClassVar[int] = 0
    results: list[ReadShareGroupStateResponseReadStateResult] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ReadShareGroupStateSummaryResponsePartitionResult(ProtocolStruct, gc=False):
    """`PartitionResult` of ReadShareGroupStateSummaryResponse."""

    partition: int = 0
    error_code: int = 0
    error_message: str | None = None
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = 0
    delivery_complete_count: int = -1
    unknown_tags: UnknownTags = ()


class ReadShareGroupStateSummaryResponseReadStateSummaryResult(ProtocolStruct, gc=False):
    """`ReadStateSummaryResult` of ReadShareGroupStateSummaryResponse."""

    topic_id: bytes = bytes(16)
    partitions: list[ReadShareGroupStateSummaryResponsePartitionResult] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ReadShareGroupStateSummaryResponse(Response, gc=False):
    """ReadShareGroupStateSummaryResponse 0-1, API key 87."""

    schema_name: ClassVar[str] = "ReadShareGroupStateSummaryResponse"
    api_key: ClassVar[int] = 87
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 1
    first_flexible_version: ClassVar[int] = 0
    results: list[ReadShareGroupStateSummaryResponseReadStateSummaryResult] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class RequestHeader(Message, gc=False):
    """RequestHeader 1-2."""

    schema_name: ClassVar[str] = "RequestHeader"
    min_version: ClassVar[int] = 1
    max_version: ClassVar[int] = 2
    first_flexible_version: ClassVar[int] = 2
    request_api_key: int = 0
    request_api_version: int = 0
    correlation_id: int = 0
    client_id: str | None = ""
    unknown_tags: UnknownTags = ()


class ResponseHeader(Message, gc=False):
    """ResponseHeader 0-1."""

    schema_name: ClassVar[str] = "ResponseHeader"
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 1
    first_flexible_version: ClassVar[int] = 1
    correlation_id: int = 0
    unknown_tags: UnknownTags = ()


class SaslAuthenticateResponse(Response, gc=False):
    """SaslAuthenticateResponse 0-2, API key 36."""

    schema_name: ClassVar[str] = "SaslAuthenticateResponse"
    api_key: ClassVar[int] = 36
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 2
    first_flexible_version: ClassVar[int] = 2
    error_code: int = 0
    error_message: str | None = ""
    auth_bytes: bytes = b""
    session_lifetime_ms: int = 0
    unknown_tags: UnknownTags = ()


class SaslHandshakeResponse(Response, gc=False):
    """SaslHandshakeResponse 0-1, API key 17."""

    schema_name: ClassVar[str] = "SaslHandshakeResponse"
    api_key: ClassVar[int] = 17
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 1
    first_flexible_version: ClassVar[int] = 32767
    error_code: int = 0
    mechanisms: list[str] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ShareAcknowledgeResponseLeaderIdAndEpoch(ProtocolStruct, gc=False):
    """`LeaderIdAndEpoch` of ShareAcknowledgeResponse."""

    leader_id: int = 0
    leader_epoch: int = 0
    unknown_tags: UnknownTags = ()


class ShareAcknowledgeResponsePartitionData(ProtocolStruct, gc=False):
    """`PartitionData` of ShareAcknowledgeResponse."""

    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    current_leader: ShareAcknowledgeResponseLeaderIdAndEpoch = field(
        default_factory=ShareAcknowledgeResponseLeaderIdAndEpoch
    )
    unknown_tags: UnknownTags = ()


class ShareAcknowledgeTopicResponse(ProtocolStruct, gc=False):
    """`ShareAcknowledgeTopicResponse` of ShareAcknowledgeResponse."""

    topic_id: bytes = bytes(16)
    partitions: list[ShareAcknowledgeResponsePartitionData] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ShareAcknowledgeResponseNodeEndpoint(ProtocolStruct, gc=False):
    """`NodeEndpoint` of ShareAcknowledgeResponse."""

    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None
    unknown_tags: UnknownTags = ()


class ShareAcknowledgeResponse(Response, gc=False):
    """ShareAcknowledgeResponse 1-2, API key 79."""

    schema_name: ClassVar[str] = "ShareAcknowledgeResponse"
    api_key: ClassVar[int] = 79
    min_version: ClassVar[int] = 1
    max_version: ClassVar[int] = 2
    first_flexible_version: ClassVar[int] = 0
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: int = 0
    responses: list[ShareAcknowledgeTopicResponse] = field(default_factory=list)
    node_endpoints: list[ShareAcknowledgeResponseNodeEndpoint] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ShareFetchResponseLeaderIdAndEpoch(ProtocolStruct, gc=False):
    """`LeaderIdAndEpoch` of ShareFetchResponse."""

    leader_id: int = 0
    leader_epoch: int = 0
    unknown_tags: UnknownTags = ()


class ShareFetchResponseAcquiredRecords(ProtocolStruct, gc=False):
    """`AcquiredRecords` of ShareFetchResponse."""

    first_offset: int = 0
    last_offset: int = 0
    delivery_count: int = 0
    unknown_tags: UnknownTags = ()


class ShareFetchResponsePartitionData(ProtocolStruct, gc=False):
    """`PartitionData` of ShareFetchResponse."""

    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    acknowledge_error_code: int = 0
    acknowledge_error_message: str | None = None
    current_leader: ShareFetchResponseLeaderIdAndEpoch = field(default_factory=ShareFetchResponseLeaderIdAndEpoch)
    records: bytes | None = None
    acquired_records: list[ShareFetchResponseAcquiredRecords] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ShareFetchableTopicResponse(ProtocolStruct, gc=False):
    """`ShareFetchableTopicResponse` of ShareFetchResponse."""

    topic_id: bytes = bytes(16)
    partitions: list[ShareFetchResponsePartitionData] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ShareFetchResponseNodeEndpoint(ProtocolStruct, gc=False):
    """`NodeEndpoint` of ShareFetchResponse."""

    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None
    unknown_tags: UnknownTags = ()


class ShareFetchResponse(Response, gc=False):
    """ShareFetchResponse 1-2, API key 78."""

    schema_name: ClassVar[str] = "ShareFetchResponse"
    api_key: ClassVar[int] = 78
    min_version: ClassVar[int] = 1
    max_version: ClassVar[int] = 2
    first_flexible_version: ClassVar[int] = 0
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: int = 0
    responses: list[ShareFetchableTopicResponse] = field(default_factory=list)
    node_endpoints: list[ShareFetchResponseNodeEndpoint] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ShareGroupDescribeResponseTopicPartitions(ProtocolStruct, gc=False):
    """`TopicPartitions` of ShareGroupDescribeResponse."""

    topic_id: bytes = bytes(16)
    topic_name: str = ""
    partitions: list[int] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ShareGroupDescribeResponseAssignment(ProtocolStruct, gc=False):
    """`Assignment` of ShareGroupDescribeResponse."""

    topic_partitions: list[ShareGroupDescribeResponseTopicPartitions] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ShareGroupDescribeResponseMember(ProtocolStruct, gc=False):
    """`Member` of ShareGroupDescribeResponse."""

    member_id: str = ""
    rack_id: str | None = None
    member_epoch: int = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = field(default_factory=list)
    assignment: ShareGroupDescribeResponseAssignment = field(default_factory=ShareGroupDescribeResponseAssignment)
    unknown_tags: UnknownTags = ()


class ShareGroupDescribeResponseDescribedGroup(ProtocolStruct, gc=False):
    """`DescribedGroup` of ShareGroupDescribeResponse."""

    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: list[ShareGroupDescribeResponseMember] = field(default_factory=list)
    authorized_operations: int = -2147483648
    unknown_tags: UnknownTags = ()


class ShareGroupDescribeResponse(Response, gc=False):
    """ShareGroupDescribeResponse 1, API key 77."""

    schema_name: ClassVar[str] = "ShareGroupDescribeResponse"
    api_key: ClassVar[int] = 77
    min_version: ClassVar[int] = 1
    max_version: ClassVar[int] = 1
    first_flexible_version: ClassVar[int] = 0
    throttle_time_ms: int = 0
    groups: list[ShareGroupDescribeResponseDescribedGroup] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ShareGroupHeartbeatResponseTopicPartitions(ProtocolStruct, gc=False):
    """`TopicPartitions` of ShareGroupHeartbeatResponse."""

    topic_id: bytes = bytes(16)
    partitions: list[int] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ShareGroupHeartbeatResponseAssignment(ProtocolStruct, gc=False):
    """`Assignment` of ShareGroupHeartbeatResponse."""

    topic_partitions: list[ShareGroupHeartbeatResponseTopicPartitions] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ShareGroupHeartbeatResponse(Response, gc=False):
    """ShareGroupHeartbeatResponse 1, API key 76."""

    schema_name: ClassVar[str] = "ShareGroupHeartbeatResponse"
    api_key: ClassVar[int] = 76
    min_version: ClassVar[int] = 1
    max_version: ClassVar[int] = 1
    first_flexible_version: ClassVar[int] = 0
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: ShareGroupHeartbeatResponseAssignment | None = None
    unknown_tags: UnknownTags = ()


class AlterShareGroupOffsetsRequestPartition(ProtocolStruct, gc=False):
    """`AlterShareGroupOffsetsRequestPartition` of AlterShareGroupOffsetsRequest."""

    partition_index: int = 0
    start_offset: int = 0
    unknown_tags: UnknownTags = ()


class AlterShareGroupOffsetsRequestTopic(ProtocolStruct, gc=False):
    """`AlterShareGroupOffsetsRequestTopic` of AlterShareGroupOffsetsRequest."""

    topic_name: str = ""
    partitions: list[AlterShareGroupOffsetsRequestPartition] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class AlterShareGroupOffsetsRequest(Request[AlterShareGroupOffsetsResponse], gc=False):
    """AlterShareGroupOffsetsRequest 0, API key 91."""

    schema_name: ClassVar[str] = "AlterShareGroupOffsetsRequest"
    api_key: ClassVar[int] = 91
    response_class: ClassVar[type[Response]] = AlterShareGroupOffsetsResponse
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    first_flexible_version: ClassVar[int] = 0
    group_id: str = ""
    topics: list[AlterShareGroupOffsetsRequestTopic] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ApiVersionsRequest(Request[ApiVersionsResponse], gc=False):
    """ApiVersionsRequest 0-5, API key 18."""

    schema_name: ClassVar[str] = "ApiVersionsRequest"
    api_key: ClassVar[int] = 18
    response_class: ClassVar[type[Response]] = ApiVersionsResponse
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 5
    first_flexible_version: ClassVar[int] = 3
    client_software_name: str = ""
    client_software_version: str = ""
    cluster_id: str | None = None
    node_id: int = -1
    unknown_tags: UnknownTags = ()


class ConsumerGroupDescribeRequest(Request[ConsumerGroupDescribeResponse], gc=False):
    """ConsumerGroupDescribeRequest 0-1, API key 69."""

    schema_name: ClassVar[str] = "ConsumerGroupDescribeRequest"
    api_key: ClassVar[int] = 69
    response_class: ClassVar[type[Response]] = ConsumerGroupDescribeResponse
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 1
    first_flexible_version: ClassVar[int] = 0
    group_ids: list[str] = field(default_factory=list)
    include_authorized_operations: bool = False
    unknown_tags: UnknownTags = ()


class DeleteGroupsRequest(Request[DeleteGroupsResponse], gc=False):
    """DeleteGroupsRequest 0-3, API key 42."""

    schema_name: ClassVar[str] = "DeleteGroupsRequest"
    api_key: ClassVar[int] = 42
    response_class: ClassVar[type[Response]] = DeleteGroupsResponse
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 3
    first_flexible_version: ClassVar[int] = 2
    groups_names: list[str] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class DeleteShareGroupOffsetsRequestTopic(ProtocolStruct, gc=False):
    """`DeleteShareGroupOffsetsRequestTopic` of DeleteShareGroupOffsetsRequest."""

    topic_name: str = ""
    unknown_tags: UnknownTags = ()


class DeleteShareGroupOffsetsRequest(Request[DeleteShareGroupOffsetsResponse], gc=False):
    """DeleteShareGroupOffsetsRequest 0, API key 92."""

    schema_name: ClassVar[str] = "DeleteShareGroupOffsetsRequest"
    api_key: ClassVar[int] = 92
    response_class: ClassVar[type[Response]] = DeleteShareGroupOffsetsResponse
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    first_flexible_version: ClassVar[int] = 0
    group_id: str = ""
    topics: list[DeleteShareGroupOffsetsRequestTopic] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class DescribeClusterRequest(Request[DescribeClusterResponse], gc=False):
    """DescribeClusterRequest 0-2, API key 60."""

    schema_name: ClassVar[str] = "DescribeClusterRequest"
    api_key: ClassVar[int] = 60
    response_class: ClassVar[type[Response]] = DescribeClusterResponse
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 2
    first_flexible_version: ClassVar[int] = 0
    include_cluster_authorized_operations: bool = False
    endpoint_type: int = 1
    include_fenced_brokers: bool = False
    unknown_tags: UnknownTags = ()


class DescribeConfigsResource(ProtocolStruct, gc=False):
    """`DescribeConfigsResource` of DescribeConfigsRequest."""

    resource_type: int = 0
    resource_name: str = ""
    configuration_keys: list[str] | None = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class DescribeConfigsRequest(Request[DescribeConfigsResponse], gc=False):
    """DescribeConfigsRequest 1-4, API key 32."""

    schema_name: ClassVar[str] = "DescribeConfigsRequest"
    api_key: ClassVar[int] = 32
    response_class: ClassVar[type[Response]] = DescribeConfigsResponse
    min_version: ClassVar[int] = 1
    max_version: ClassVar[int] = 4
    first_flexible_version: ClassVar[int] = 4
    resources: list[DescribeConfigsResource] = field(default_factory=list)
    include_synonyms: bool = False
    include_documentation: bool = False
    unknown_tags: UnknownTags = ()


class DescribeGroupsRequest(Request[DescribeGroupsResponse], gc=False):
    """DescribeGroupsRequest 0-6, API key 15."""

    schema_name: ClassVar[str] = "DescribeGroupsRequest"
    api_key: ClassVar[int] = 15
    response_class: ClassVar[type[Response]] = DescribeGroupsResponse
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 6
    first_flexible_version: ClassVar[int] = 5
    groups: list[str] = field(default_factory=list)
    include_authorized_operations: bool = False
    unknown_tags: UnknownTags = ()


class DescribeProducersRequestTopicRequest(ProtocolStruct, gc=False):
    """`TopicRequest` of DescribeProducersRequest."""

    name: str = ""
    partition_indexes: list[int] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class DescribeProducersRequest(Request[DescribeProducersResponse], gc=False):
    """DescribeProducersRequest 0, API key 61."""

    schema_name: ClassVar[str] = "DescribeProducersRequest"
    api_key: ClassVar[int] = 61
    response_class: ClassVar[type[Response]] = DescribeProducersResponse
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    first_flexible_version: ClassVar[int] = 0
    topics: list[DescribeProducersRequestTopicRequest] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class DescribeShareGroupOffsetsRequestTopic(ProtocolStruct, gc=False):
    """`DescribeShareGroupOffsetsRequestTopic` of DescribeShareGroupOffsetsRequest."""

    topic_name: str = ""
    partitions: list[int] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class DescribeShareGroupOffsetsRequestGroup(ProtocolStruct, gc=False):
    """`DescribeShareGroupOffsetsRequestGroup` of DescribeShareGroupOffsetsRequest."""

    group_id: str = ""
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class DescribeShareGroupOffsetsRequest(Request[DescribeShareGroupOffsetsResponse], gc=False):
    """DescribeShareGroupOffsetsRequest 0-1, API key 90."""

    schema_name: ClassVar[str] = "DescribeShareGroupOffsetsRequest"
    api_key: ClassVar[int] = 90
    response_class: ClassVar[type[Response]] = DescribeShareGroupOffsetsResponse
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 1
    first_flexible_version: ClassVar[int] = 0
    groups: list[DescribeShareGroupOffsetsRequestGroup] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class DescribeTransactionsRequest(Request[DescribeTransactionsResponse], gc=False):
    """DescribeTransactionsRequest 0, API key 65."""

    schema_name: ClassVar[str] = "DescribeTransactionsRequest"
    api_key: ClassVar[int] = 65
    response_class: ClassVar[type[Response]] = DescribeTransactionsResponse
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    first_flexible_version: ClassVar[int] = 0
    transactional_ids: list[str] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class FetchRequestReplicaState(ProtocolStruct, gc=False):
    """`ReplicaState` of FetchRequest."""

    replica_id: int = -1
    replica_epoch: int = -1
    unknown_tags: UnknownTags = ()


class FetchPartition(ProtocolStruct, gc=False):
    """`FetchPartition` of FetchRequest."""

    partition: int = 0
    current_leader_epoch: int = -1
    fetch_offset: int = 0
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    partition_max_bytes: int = 0
    replica_directory_id: bytes = bytes(16)
    high_watermark: int = 9223372036854775807
    unknown_tags: UnknownTags = ()


class FetchTopic(ProtocolStruct, gc=False):
    """`FetchTopic` of FetchRequest."""

    topic: str = ""
    topic_id: bytes = bytes(16)
    partitions: list[FetchPartition] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class FetchRequestForgottenTopic(ProtocolStruct, gc=False):
    """`ForgottenTopic` of FetchRequest."""

    topic: str = ""
    topic_id: bytes = bytes(16)
    partitions: list[int] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class FetchRequest(Request[FetchResponse], gc=False):
    """FetchRequest 4-18, API key 1."""

    schema_name: ClassVar[str] = "FetchRequest"
    api_key: ClassVar[int] = 1
    response_class: ClassVar[type[Response]] = FetchResponse
    min_version: ClassVar[int] = 4
    max_version: ClassVar[int] = 18
    first_flexible_version: ClassVar[int] = 12
    cluster_id: str | None = None
    replica_id: int = -1
    replica_state: FetchRequestReplicaState = field(default_factory=FetchRequestReplicaState)
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 2147483647
    isolation_level: int = 0
    session_id: int = 0
    session_epoch: int = -1
    topics: list[FetchTopic] = field(default_factory=list)
    forgotten_topics_data: list[FetchRequestForgottenTopic] = field(default_factory=list)
    rack_id: str = ""
    unknown_tags: UnknownTags = ()


class FindCoordinatorRequest(Request[FindCoordinatorResponse], gc=False):
    """FindCoordinatorRequest 0-6, API key 10."""

    schema_name: ClassVar[str] = "FindCoordinatorRequest"
    api_key: ClassVar[int] = 10
    response_class: ClassVar[type[Response]] = FindCoordinatorResponse
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 6
    first_flexible_version: ClassVar[int] = 3
    key: str = ""
    key_type: int = 0
    coordinator_keys: list[str] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class IncrementalAlterConfigsRequestAlterableConfig(ProtocolStruct, gc=False):
    """`AlterableConfig` of IncrementalAlterConfigsRequest."""

    name: str = ""
    config_operation: int = 0
    value: str | None = ""
    unknown_tags: UnknownTags = ()


class IncrementalAlterConfigsRequestAlterConfigsResource(ProtocolStruct, gc=False):
    """`AlterConfigsResource` of IncrementalAlterConfigsRequest."""

    resource_type: int = 0
    resource_name: str = ""
    configs: list[IncrementalAlterConfigsRequestAlterableConfig] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class IncrementalAlterConfigsRequest(Request[IncrementalAlterConfigsResponse], gc=False):
    """IncrementalAlterConfigsRequest 0-1, API key 44."""

    schema_name: ClassVar[str] = "IncrementalAlterConfigsRequest"
    api_key: ClassVar[int] = 44
    response_class: ClassVar[type[Response]] = IncrementalAlterConfigsResponse
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 1
    first_flexible_version: ClassVar[int] = 1
    resources: list[IncrementalAlterConfigsRequestAlterConfigsResource] = field(default_factory=list)
    validate_only: bool = False
    unknown_tags: UnknownTags = ()


class ListGroupsRequest(Request[ListGroupsResponse], gc=False):
    """ListGroupsRequest 0-5, API key 16."""

    schema_name: ClassVar[str] = "ListGroupsRequest"
    api_key: ClassVar[int] = 16
    response_class: ClassVar[type[Response]] = ListGroupsResponse
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 5
    first_flexible_version: ClassVar[int] = 3
    states_filter: list[str] = field(default_factory=list)
    types_filter: list[str] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ListOffsetsPartition(ProtocolStruct, gc=False):
    """`ListOffsetsPartition` of ListOffsetsRequest."""

    partition_index: int = 0
    current_leader_epoch: int = -1
    timestamp: int = 0
    unknown_tags: UnknownTags = ()


class ListOffsetsTopic(ProtocolStruct, gc=False):
    """`ListOffsetsTopic` of ListOffsetsRequest."""

    name: str = ""
    partitions: list[ListOffsetsPartition] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ListOffsetsRequest(Request[ListOffsetsResponse], gc=False):
    """ListOffsetsRequest 1-11, API key 2."""

    schema_name: ClassVar[str] = "ListOffsetsRequest"
    api_key: ClassVar[int] = 2
    response_class: ClassVar[type[Response]] = ListOffsetsResponse
    min_version: ClassVar[int] = 1
    max_version: ClassVar[int] = 11
    first_flexible_version: ClassVar[int] = 6
    replica_id: int = 0
    isolation_level: int = 0
    topics: list[ListOffsetsTopic] = field(default_factory=list)
    timeout_ms: int = 0
    unknown_tags: UnknownTags = ()


class ListTransactionsRequest(Request[ListTransactionsResponse], gc=False):
    """ListTransactionsRequest 0-2, API key 66."""

    schema_name: ClassVar[str] = "ListTransactionsRequest"
    api_key: ClassVar[int] = 66
    response_class: ClassVar[type[Response]] = ListTransactionsResponse
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 2
    first_flexible_version: ClassVar[int] = 0
    state_filters: list[str] = field(default_factory=list)
    producer_id_filters: list[int] = field(default_factory=list)
    duration_filter: int = -1
    transactional_id_pattern: str | None = None
    unknown_tags: UnknownTags = ()


class MetadataRequestTopic(ProtocolStruct, gc=False):
    """`MetadataRequestTopic` of MetadataRequest."""

    topic_id: bytes = bytes(16)
    name: str | None = ""
    unknown_tags: UnknownTags = ()


class MetadataRequest(Request[MetadataResponse], gc=False):
    """MetadataRequest 0-13, API key 3."""

    schema_name: ClassVar[str] = "MetadataRequest"
    api_key: ClassVar[int] = 3
    response_class: ClassVar[type[Response]] = MetadataResponse
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 13
    first_flexible_version: ClassVar[int] = 9
    topics: list[MetadataRequestTopic] | None = field(default_factory=list)
    allow_auto_topic_creation: bool = True
    include_cluster_authorized_operations: bool = False
    include_topic_authorized_operations: bool = False
    unknown_tags: UnknownTags = ()


class OffsetCommitRequestPartition(ProtocolStruct, gc=False):
    """`OffsetCommitRequestPartition` of OffsetCommitRequest."""

    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    committed_metadata: str | None = ""
    unknown_tags: UnknownTags = ()


class OffsetCommitRequestTopic(ProtocolStruct, gc=False):
    """`OffsetCommitRequestTopic` of OffsetCommitRequest."""

    name: str = ""
    topic_id: bytes = bytes(16)
    partitions: list[OffsetCommitRequestPartition] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class OffsetCommitRequest(Request[OffsetCommitResponse], gc=False):
    """OffsetCommitRequest 2-10, API key 8."""

    schema_name: ClassVar[str] = "OffsetCommitRequest"
    api_key: ClassVar[int] = 8
    response_class: ClassVar[type[Response]] = OffsetCommitResponse
    min_version: ClassVar[int] = 2
    max_version: ClassVar[int] = 10
    first_flexible_version: ClassVar[int] = 8
    group_id: str = ""
    generation_id_or_member_epoch: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    retention_time_ms: int = -1
    topics: list[OffsetCommitRequestTopic] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class OffsetFetchRequestTopic(ProtocolStruct, gc=False):
    """`OffsetFetchRequestTopic` of OffsetFetchRequest."""

    name: str = ""
    partition_indexes: list[int] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class OffsetFetchRequestTopics(ProtocolStruct, gc=False):
    """`OffsetFetchRequestTopics` of OffsetFetchRequest."""

    name: str = ""
    topic_id: bytes = bytes(16)
    partition_indexes: list[int] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class OffsetFetchRequestGroup(ProtocolStruct, gc=False):
    """`OffsetFetchRequestGroup` of OffsetFetchRequest."""

    group_id: str = ""
    member_id: str | None = None
    member_epoch: int = -1
    topics: list[OffsetFetchRequestTopics] | None = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class OffsetFetchRequest(Request[OffsetFetchResponse], gc=False):
    """OffsetFetchRequest 1-10, API key 9."""

    schema_name: ClassVar[str] = "OffsetFetchRequest"
    api_key: ClassVar[int] = 9
    response_class: ClassVar[type[Response]] = OffsetFetchResponse
    min_version: ClassVar[int] = 1
    max_version: ClassVar[int] = 10
    first_flexible_version: ClassVar[int] = 6
    group_id: str = ""
    topics: list[OffsetFetchRequestTopic] | None = field(default_factory=list)
    groups: list[OffsetFetchRequestGroup] = field(default_factory=list)
    require_stable: bool = False
    unknown_tags: UnknownTags = ()


class ProduceRequestPartitionProduceData(ProtocolStruct, gc=False):
    """`PartitionProduceData` of ProduceRequest."""

    index: int = 0
    records: bytes | None = None
    unknown_tags: UnknownTags = ()


class ProduceRequestTopicProduceData(ProtocolStruct, gc=False):
    """`TopicProduceData` of ProduceRequest."""

    name: str = ""
    topic_id: bytes = bytes(16)
    partition_data: list[ProduceRequestPartitionProduceData] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ProduceRequest(Request[ProduceResponse], gc=False):
    """ProduceRequest 3-13, API key 0."""

    schema_name: ClassVar[str] = "ProduceRequest"
    api_key: ClassVar[int] = 0
    response_class: ClassVar[type[Response]] = ProduceResponse
    min_version: ClassVar[int] = 3
    max_version: ClassVar[int] = 13
    first_flexible_version: ClassVar[int] = 9
    transactional_id: str | None = None
    acks: int = 0
    timeout_ms: int = 0
    topic_data: list[ProduceRequestTopicProduceData] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ReadShareGroupStateRequestPartitionData(ProtocolStruct, gc=False):
    """`PartitionData` of ReadShareGroupStateRequest."""

    partition: int = 0
    leader_epoch: int = 0
    unknown_tags: UnknownTags = ()


class ReadShareGroupStateRequestReadStateData(ProtocolStruct, gc=False):
    """`ReadStateData` of ReadShareGroupStateRequest."""

    topic_id: bytes = bytes(16)
    partitions: list[ReadShareGroupStateRequestPartitionData] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ReadShareGroupStateRequest(Request[ReadShareGroupStateResponse], gc=False):
    """ReadShareGroupStateRequest 0, API key 84."""

    schema_name: ClassVar[str] = "ReadShareGroupStateRequest"
    api_key: ClassVar[int] = 84
    response_class: ClassVar[type[Response]] = ReadShareGroupStateResponse
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 0
    first_flexible_version: ClassVar[int] = 0
    group_id: str = ""
    topics: list[ReadShareGroupStateRequestReadStateData] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ReadShareGroupStateSummaryRequestPartitionData(ProtocolStruct, gc=False):
    """`PartitionData` of ReadShareGroupStateSummaryRequest."""

    partition: int = 0
    leader_epoch: int = 0
    unknown_tags: UnknownTags = ()


class ReadShareGroupStateSummaryRequestReadStateSummaryData(ProtocolStruct, gc=False):
    """`ReadStateSummaryData` of ReadShareGroupStateSummaryRequest."""

    topic_id: bytes = bytes(16)
    partitions: list[ReadShareGroupStateSummaryRequestPartitionData] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ReadShareGroupStateSummaryRequest(Request[ReadShareGroupStateSummaryResponse], gc=False):
    """ReadShareGroupStateSummaryRequest 0-1, API key 87."""

    schema_name: ClassVar[str] = "ReadShareGroupStateSummaryRequest"
    api_key: ClassVar[int] = 87
    response_class: ClassVar[type[Response]] = ReadShareGroupStateSummaryResponse
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 1
    first_flexible_version: ClassVar[int] = 0
    group_id: str = ""
    topics: list[ReadShareGroupStateSummaryRequestReadStateSummaryData] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class SaslAuthenticateRequest(Request[SaslAuthenticateResponse], gc=False):
    """SaslAuthenticateRequest 0-2, API key 36."""

    schema_name: ClassVar[str] = "SaslAuthenticateRequest"
    api_key: ClassVar[int] = 36
    response_class: ClassVar[type[Response]] = SaslAuthenticateResponse
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 2
    first_flexible_version: ClassVar[int] = 2
    auth_bytes: bytes = b""
    unknown_tags: UnknownTags = ()


class SaslHandshakeRequest(Request[SaslHandshakeResponse], gc=False):
    """SaslHandshakeRequest 0-1, API key 17."""

    schema_name: ClassVar[str] = "SaslHandshakeRequest"
    api_key: ClassVar[int] = 17
    response_class: ClassVar[type[Response]] = SaslHandshakeResponse
    min_version: ClassVar[int] = 0
    max_version: ClassVar[int] = 1
    first_flexible_version: ClassVar[int] = 32767
    mechanism: str = ""
    unknown_tags: UnknownTags = ()


class ShareAcknowledgeRequestAcknowledgementBatch(ProtocolStruct, gc=False):
    """`AcknowledgementBatch` of ShareAcknowledgeRequest."""

    first_offset: int = 0
    last_offset: int = 0
    acknowledge_types: list[int] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ShareAcknowledgeRequestAcknowledgePartition(ProtocolStruct, gc=False):
    """`AcknowledgePartition` of ShareAcknowledgeRequest."""

    partition_index: int = 0
    acknowledgement_batches: list[ShareAcknowledgeRequestAcknowledgementBatch] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ShareAcknowledgeRequestAcknowledgeTopic(ProtocolStruct, gc=False):
    """`AcknowledgeTopic` of ShareAcknowledgeRequest."""

    topic_id: bytes = bytes(16)
    partitions: list[ShareAcknowledgeRequestAcknowledgePartition] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ShareAcknowledgeRequest(Request[ShareAcknowledgeResponse], gc=False):
    """ShareAcknowledgeRequest 1-2, API key 79."""

    schema_name: ClassVar[str] = "ShareAcknowledgeRequest"
    api_key: ClassVar[int] = 79
    response_class: ClassVar[type[Response]] = ShareAcknowledgeResponse
    min_version: ClassVar[int] = 1
    max_version: ClassVar[int] = 2
    first_flexible_version: ClassVar[int] = 0
    group_id: str | None = None
    member_id: str | None = ""
    share_session_epoch: int = 0
    is_renew_ack: bool = False
    topics: list[ShareAcknowledgeRequestAcknowledgeTopic] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ShareFetchRequestAcknowledgementBatch(ProtocolStruct, gc=False):
    """`AcknowledgementBatch` of ShareFetchRequest."""

    first_offset: int = 0
    last_offset: int = 0
    acknowledge_types: list[int] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ShareFetchRequestFetchPartition(ProtocolStruct, gc=False):
    """`FetchPartition` of ShareFetchRequest."""

    partition_index: int = 0
    partition_max_bytes: int = 0
    acknowledgement_batches: list[ShareFetchRequestAcknowledgementBatch] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ShareFetchRequestFetchTopic(ProtocolStruct, gc=False):
    """`FetchTopic` of ShareFetchRequest."""

    topic_id: bytes = bytes(16)
    partitions: list[ShareFetchRequestFetchPartition] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ShareFetchRequestForgottenTopic(ProtocolStruct, gc=False):
    """`ForgottenTopic` of ShareFetchRequest."""

    topic_id: bytes = bytes(16)
    partitions: list[int] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ShareFetchRequest(Request[ShareFetchResponse], gc=False):
    """ShareFetchRequest 1-2, API key 78."""

    schema_name: ClassVar[str] = "ShareFetchRequest"
    api_key: ClassVar[int] = 78
    response_class: ClassVar[type[Response]] = ShareFetchResponse
    min_version: ClassVar[int] = 1
    max_version: ClassVar[int] = 2
    first_flexible_version: ClassVar[int] = 0
    group_id: str | None = None
    member_id: str | None = ""
    share_session_epoch: int = 0
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 2147483647
    max_records: int = 0
    batch_size: int = 0
    share_acquire_mode: int = 0
    is_renew_ack: bool = False
    topics: list[ShareFetchRequestFetchTopic] = field(default_factory=list)
    forgotten_topics_data: list[ShareFetchRequestForgottenTopic] = field(default_factory=list)
    unknown_tags: UnknownTags = ()


class ShareGroupDescribeRequest(Request[ShareGroupDescribeResponse], gc=False):
    """ShareGroupDescribeRequest 1, API key 77."""

    schema_name: ClassVar[str] = "ShareGroupDescribeRequest"
    api_key: ClassVar[int] = 77
    response_class: ClassVar[type[Response]] = ShareGroupDescribeResponse
    min_version: ClassVar[int] = 1
    max_version: ClassVar[int] = 1
    first_flexible_version: ClassVar[int] = 0
    group_ids: list[str] = field(default_factory=list)
    include_authorized_operations: bool = False
    unknown_tags: UnknownTags = ()


class ShareGroupHeartbeatRequest(Request[ShareGroupHeartbeatResponse], gc=False):
    """ShareGroupHeartbeatRequest 1, API key 76."""

    schema_name: ClassVar[str] = "ShareGroupHeartbeatRequest"
    api_key: ClassVar[int] = 76
    response_class: ClassVar[type[Response]] = ShareGroupHeartbeatResponse
    min_version: ClassVar[int] = 1
    max_version: ClassVar[int] = 1
    first_flexible_version: ClassVar[int] = 0
    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0
    rack_id: str | None = None
    subscribed_topic_names: list[str] | None = None
    unknown_tags: UnknownTags = ()


MESSAGES: tuple[type[Message], ...] = (
    AlterShareGroupOffsetsResponse,
    ApiVersionsResponse,
    ConsumerGroupDescribeResponse,
    DeleteGroupsResponse,
    DeleteShareGroupOffsetsResponse,
    DescribeClusterResponse,
    DescribeConfigsResponse,
    DescribeGroupsResponse,
    DescribeProducersResponse,
    DescribeShareGroupOffsetsResponse,
    DescribeTransactionsResponse,
    FetchResponse,
    FindCoordinatorResponse,
    IncrementalAlterConfigsResponse,
    ListGroupsResponse,
    ListOffsetsResponse,
    ListTransactionsResponse,
    MetadataResponse,
    OffsetCommitResponse,
    OffsetFetchResponse,
    ProduceResponse,
    ReadShareGroupStateResponse,
    ReadShareGroupStateSummaryResponse,
    RequestHeader,
    ResponseHeader,
    SaslAuthenticateResponse,
    SaslHandshakeResponse,
    ShareAcknowledgeResponse,
    ShareFetchResponse,
    ShareGroupDescribeResponse,
    ShareGroupHeartbeatResponse,
    AlterShareGroupOffsetsRequest,
    ApiVersionsRequest,
    ConsumerGroupDescribeRequest,
    DeleteGroupsRequest,
    DeleteShareGroupOffsetsRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeGroupsRequest,
    DescribeProducersRequest,
    DescribeShareGroupOffsetsRequest,
    DescribeTransactionsRequest,
    FetchRequest,
    FindCoordinatorRequest,
    IncrementalAlterConfigsRequest,
    ListGroupsRequest,
    ListOffsetsRequest,
    ListTransactionsRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    ProduceRequest,
    ReadShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
    ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest,
)
