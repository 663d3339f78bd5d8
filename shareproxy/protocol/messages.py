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


MESSAGES: tuple[type[Message], ...] = (
    AlterShareGroupOffsetsResponse,
    ApiVersionsResponse,
    DeleteShareGroupOffsetsResponse,
    DescribeClusterResponse,
    DescribeConfigsResponse,
    DescribeShareGroupOffsetsResponse,
    FindCoordinatorResponse,
    ListGroupsResponse,
    ListOffsetsResponse,
    MetadataResponse,
    ReadShareGroupStateResponse,
    ReadShareGroupStateSummaryResponse,
    RequestHeader,
    ResponseHeader,
    SaslAuthenticateResponse,
    SaslHandshakeResponse,
    ShareGroupDescribeResponse,
    AlterShareGroupOffsetsRequest,
    ApiVersionsRequest,
    DeleteShareGroupOffsetsRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeShareGroupOffsetsRequest,
    FindCoordinatorRequest,
    ListGroupsRequest,
    ListOffsetsRequest,
    MetadataRequest,
    ReadShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
    ShareGroupDescribeRequest,
)
