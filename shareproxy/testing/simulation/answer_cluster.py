"""What brokers answer about the cluster: versions, nodes, topics, coordinators, configurations.

In: calls. Out: answers. Must never: create a topic because somebody asks for it, but for the two internal ones that
FindCoordinator creates.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from shareproxy.protocol import messages as m
from shareproxy.protocol.ids import NO_TOPIC_ID, TopicId, parse_topic_id
from shareproxy.testing.simulation.call import TEXTS, Call
from shareproxy.testing.simulation.cluster_state import GROUP_TOPIC, SHARE_TOPIC
from shareproxy.testing.simulation.rights import NOT_TOLD
from shareproxy.testing.simulation.topics import Partition, Topic
from shareproxy.testing.simulation.versions import DEFAULT_CONFIG, GROUP_CONFIG, STRING

GROUP_KEY, TRANSACTION_KEY, SHARE_KEY = 0, 1, 2
TOPIC_RESOURCE, BROKER_RESOURCE, GROUP_RESOURCE = 2, 4, 32
TOPIC_CONFIG: Final = 1
BROKER_CONFIG_DEFAULT: Final = 5
SOFTWARE: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?")

_TOPIC_DEFAULTS: Final = {"cleanup.policy": "delete", "retention.ms": "604800000", "retention.bytes": "-1"}
_BROKER_DEFAULTS: Final = {
    "group.share.max.size": "200",
    "group.share.max.share.sessions": "2000",
    "group.share.delivery.count.limit": "5",
    "group.share.partition.max.record.locks": "2000",
    "group.share.record.lock.duration.ms": "30000",
}


def api_versions(call: Call[m.ApiVersionsRequest]) -> m.ApiVersionsResponse:
    """Answer ApiVersions; a version that the node does not know is answered by its connection."""
    kafka = call.node.kafka
    named = (call.message.client_software_name, call.message.client_software_version)
    if call.version >= 3 and not all(SOFTWARE.fullmatch(text) for text in named):
        return m.ApiVersionsResponse(42)
    share_level = call.state.level_of_share_version(kafka)
    # before version 4 features that may be off are not told
    features = {name: levels for name, levels in kafka.features.items() if call.version >= 4 or levels[0] > 0}
    finalized = {**kafka.finalized, "share.version": share_level}
    return m.ApiVersionsResponse(
        0,
        [m.ApiVersionsResponseApiVersion(key, low, high) for key, (low, high) in kafka.apis.items()],
        0,
        [m.ApiVersionsResponseSupportedFeatureKey(name, low, high) for name, (low, high) in features.items()],
        1,
        [m.ApiVersionsResponseFinalizedFeatureKey(name, level, level) for name, level in finalized.items() if level],
    )


def metadata(call: Call[m.MetadataRequest]) -> m.MetadataResponse:
    """Answer Metadata: all topics, those named, or those whose ids are given."""
    state, asked = call.state, call.message.topics
    if asked is None or (not asked and call.version == 0):
        rows = [_topic(call, topic) for topic in state.topics.by_name.values() if _may_see(call, topic.name)]
    else:
        rows = [_asked_topic(call, row) for row in asked]
    return m.MetadataResponse(
        brokers=[
            m.MetadataResponseBroker(broker.node_id, broker.host, broker.port, broker.rack)
            for broker in state.brokers.values()
            if broker.alive
        ],
        cluster_id=state.cluster_id,
        controller_id=state.controller,
        topics=rows,
    )


def _may_see(call: Call[m.MetadataRequest], name: str) -> bool:
    return call.may("DESCRIBE", "TOPIC", name)


def _asked_topic(call: Call[m.MetadataRequest], asked: m.MetadataRequestTopic) -> m.MetadataResponseTopic:
    if asked.name is None or (not asked.name and asked.topic_id != NO_TOPIC_ID):
        topic = call.state.topics.by_id.get(TopicId(asked.topic_id))
        if topic is None or not _may_see(call, topic.name):
            return m.MetadataResponseTopic(100, None, asked.topic_id)
        return _topic(call, topic)
    if not _may_see(call, asked.name):
        return m.MetadataResponseTopic(29, asked.name)
    topic = call.state.topics.by_name.get(asked.name)
    return m.MetadataResponseTopic(3, asked.name) if topic is None else _topic(call, topic)


def _topic(call: Call[m.MetadataRequest], topic: Topic) -> m.MetadataResponseTopic:
    if code := call.fault(topic=topic.name):
        return m.MetadataResponseTopic(code, topic.name)
    alive = {node for node, broker in call.state.brokers.items() if broker.alive}
    return m.MetadataResponseTopic(
        0,
        topic.name,
        topic.topic_id,
        topic.is_internal,
        [_partition(index, row, alive) for index, row in enumerate(topic.partitions)],
        call.state.rights.operations(call.principal, "TOPIC", topic.name)
        if call.message.include_topic_authorized_operations
        else NOT_TOLD,
    )


def _partition(index: int, row: Partition, alive: set[int]) -> m.MetadataResponsePartition:
    replicas = list(row.replicas)
    if row.leader is None or row.leader not in alive:
        return m.MetadataResponsePartition(5, index, -1, row.leader_epoch, replicas, [], replicas)
    here = [node for node in replicas if node in alive]
    gone = [node for node in replicas if node not in alive]
    return m.MetadataResponsePartition(0, index, row.leader, row.leader_epoch, replicas, here, gone)


def describe_cluster(call: Call[m.DescribeClusterRequest]) -> m.DescribeClusterResponse:
    """Answer DescribeCluster."""
    if call.message.endpoint_type != 1:
        text = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
        return m.DescribeClusterResponse(0, 114, text)
    return m.DescribeClusterResponse(
        cluster_id=call.state.cluster_id,
        controller_id=call.state.controller,
        brokers=[
            m.DescribeClusterBroker(broker.node_id, broker.host, broker.port, broker.rack, not broker.alive)
            for broker in call.state.brokers.values()
            if broker.alive or call.message.include_fenced_brokers
        ],
    )


# -- coordinators ------------------------------------------------------------------------------------------------------


def find_coordinator(call: Call[m.FindCoordinatorRequest]) -> m.FindCoordinatorResponse:
    """Answer FindCoordinator, for one key or for many."""
    message = call.message
    if call.version >= 4:
        rows = [_coordinator(call, key, message.key_type) for key in message.coordinator_keys]
        return m.FindCoordinatorResponse(coordinators=rows)
    row = _coordinator(call, message.key, message.key_type)
    text = (TEXTS.get(row.error_code, "") if row.error_code else "NONE") if call.version >= 1 else ""
    return m.FindCoordinatorResponse(0, row.error_code, text, row.node_id, row.host, row.port)


def _coordinator(call: Call[m.FindCoordinatorRequest], key: str, kind: int) -> m.FindCoordinatorResponseCoordinator:
    code, node = _find(call, key, kind)
    broker = call.state.brokers.get(-1 if node is None else node)
    if code or broker is None or not broker.alive:
        code = code or 15
        return m.FindCoordinatorResponseCoordinator(key, -1, "", -1, code, TEXTS[31] if code == 31 else "")
    return m.FindCoordinatorResponseCoordinator(key, broker.node_id, broker.host, broker.port, 0, "")


def _find(call: Call[m.FindCoordinatorRequest], key: str, kind: int) -> tuple[int, int | None]:
    state = call.state
    if code := call.fault(group=key.split(":")[0] if kind == SHARE_KEY else key):
        return code, None
    if kind == GROUP_KEY:
        if not call.may("DESCRIBE", "GROUP", key):
            return 30, None
        if GROUP_TOPIC not in state.topics.by_name:
            state.internal_topic(GROUP_TOPIC)
            return 15, None
        return 0, state.group_coordinator(key)
    if kind != SHARE_KEY or call.version < 6:
        return 42, None
    if not call.may_in_cluster("CLUSTER_ACTION"):
        return 31, None
    parsed = _share_key(key, colon_allowed=call.node.kafka.colon_in_group)
    if parsed is None:
        return 42, None
    if SHARE_TOPIC not in state.topics.by_name:
        state.internal_topic(SHARE_TOPIC)
        return 15, None
    group, topic_id, partition = parsed
    return 0, state.share_coordinators(group, topic_id)(partition)


def _share_key(key: str, *, colon_allowed: bool) -> tuple[str, TopicId, int] | None:
    pattern = r"(.+):([A-Za-z0-9_-]{22}):(\d+)" if colon_allowed else r"([^:]+):([A-Za-z0-9_-]{22}):(\d+)"
    match = re.fullmatch(pattern, key, re.DOTALL)
    return None if match is None else (match[1], parse_topic_id(match[2]), int(match[3]))


# -- configurations ----------------------------------------------------------------------------------------------------


def describe_configs(call: Call[m.DescribeConfigsRequest]) -> m.DescribeConfigsResponse:
    """Answer DescribeConfigs of groups; of topics and brokers only a few rows."""
    return m.DescribeConfigsResponse(results=[_resource(call, resource) for resource in call.message.resources])


def _resource(call: Call[m.DescribeConfigsRequest], asked: m.DescribeConfigsResource) -> m.DescribeConfigsResult:
    kind, name = asked.resource_type, asked.resource_name

    def failed(code: int, text: str) -> m.DescribeConfigsResult:
        return m.DescribeConfigsResult(code, text, kind, name)

    if kind == GROUP_RESOURCE:
        if not name:
            return failed(42, "Group name must not be empty")
        if not call.may("DESCRIBE_CONFIGS", "GROUP", name):
            return failed(30, TEXTS[30])
        if code := call.fault(group=name):
            return failed(code, TEXTS.get(code, ""))
        rows = _group_rows(call, name)
    elif kind == TOPIC_RESOURCE:
        if not call.may("DESCRIBE_CONFIGS", "TOPIC", name):
            return failed(29, TEXTS[29])
        topic = call.state.topics.by_name.get(name)
        if topic is None:
            return failed(3, TEXTS[3])
        rows = [
            _row(key, topic.configs.get(key, value), TOPIC_CONFIG if key in topic.configs else DEFAULT_CONFIG)
            for key, value in {**_TOPIC_DEFAULTS, **topic.configs}.items()
        ]
    elif kind == BROKER_RESOURCE:
        if not call.may_in_cluster("DESCRIBE_CONFIGS"):
            return failed(31, TEXTS[31])
        rows = [_row(key, value, BROKER_CONFIG_DEFAULT) for key, value in _BROKER_DEFAULTS.items()]
    else:
        return failed(42, f"Unsupported resource type: {kind}")
    wanted: Sequence[str] | None = asked.configuration_keys
    return m.DescribeConfigsResult(0, "", kind, name, [row for row in rows if wanted is None or row.name in wanted])


def _group_rows(call: Call[m.DescribeConfigsRequest], group: str) -> list[m.DescribeConfigsResourceResult]:
    own, rows = call.state.groups.configs.get(group, {}), []
    newer = any(default.synonym.startswith("group.") for default in call.node.kafka.group_configs.values())
    for name, default in call.node.kafka.group_configs.items():
        value = own.get(name, default.value)
        source = GROUP_CONFIG if name in own else DEFAULT_CONFIG
        row = _row(name, value, source, default.config_type)
        if call.message.include_synonyms:
            if name in own:
                row.synonyms.append(m.DescribeConfigsSynonym(name, value, GROUP_CONFIG))
            if newer or name not in own:  # before 4.3 a value that was set hides the default
                row.synonyms.append(m.DescribeConfigsSynonym(default.synonym, default.value, DEFAULT_CONFIG))
        if call.message.include_documentation:
            row.documentation = f"{name} of this group"
        rows.append(row)
    return rows


def _row(name: str, value: str, source: int, config_type: int = STRING) -> m.DescribeConfigsResourceResult:
    return m.DescribeConfigsResourceResult(name, value, False, source, False, [], config_type, None)
