package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

func connection(given parameters) []kgo.Opt {
	return []kgo.Opt{kgo.SeedBrokers(strings.Split(given.Bootstrap, ",")...), kgo.ClientID("interop-franz-go")}
}

func produce(ctx context.Context, given parameters) (any, error) {
	options, err := producerOptions(given)
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(append(connection(given), options...)...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if err := send(ctx, client, given.Topic, given.Records); err != nil {
		return nil, err
	}
	return map[string]int{"sent": len(given.Records)}, nil
}

func producerOptions(given parameters) ([]kgo.Opt, error) {
	codec, known := codecs[given.Codec]
	if !known {
		return nil, fmt.Errorf("unknown codec %q", given.Codec)
	}
	options := []kgo.Opt{kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(codec)}
	switch given.Acks {
	case "0":
		options = append(options, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	case "1":
		options = append(options, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	case "all":
		options = append(options, kgo.RequiredAcks(kgo.AllISRAcks()))
	default:
		return nil, fmt.Errorf("unknown acks %q", given.Acks)
	}
	return options, nil
}

func send(ctx context.Context, client *kgo.Client, topic string, records []record) error {
	batch := make([]*kgo.Record, 0, len(records))
	for _, each := range records {
		made := &kgo.Record{Topic: topic, Partition: each.Partition, Key: each.Key, Value: each.Value}
		for _, header := range each.Headers {
			value, err := decoded(header)
			if err != nil {
				return err
			}
			made.Headers = append(made.Headers, kgo.RecordHeader{Key: *header[0], Value: value})
		}
		batch = append(batch, made)
	}
	return client.ProduceSync(ctx, batch...).FirstErr()
}

func received(each *kgo.Record) record {
	made := record{
		Partition: each.Partition, Key: each.Key, Value: each.Value, Headers: [][2]*string{}, Offset: &each.Offset,
	}
	for _, header := range each.Headers {
		made.Headers = append(made.Headers, encoded(header.Key, header.Value))
	}
	return made
}

func decoded(header [2]*string) ([]byte, error) {
	if header[1] == nil {
		return nil, nil
	}
	value, err := base64.StdEncoding.DecodeString(*header[1])
	if err != nil {
		return nil, fmt.Errorf("header %q: %w", *header[0], err)
	}
	return value, nil
}

func encoded(name string, value []byte) [2]*string {
	if value == nil {
		return [2]*string{&name, nil}
	}
	text := base64.StdEncoding.EncodeToString(value)
	return [2]*string{&name, &text}
}

func consume(ctx context.Context, given parameters) (any, error) {
	return consumeWith(ctx, given, connection(given))
}

func consumeWith(ctx context.Context, given parameters, options []kgo.Opt) (any, error) {
	options = append(options,
		kgo.ConsumerGroup(given.Group),
		kgo.ConsumeTopics(given.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
	)
	if given.Isolation == "read_committed" {
		options = append(options, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	client, err := kgo.NewClient(append(options, balancing(given.Protocol)...)...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	records, err := poll(ctx, client, given.Count, func([]*kgo.Record) {})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := client.CommitUncommittedOffsets(ctx); err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	if err := usesProtocol(ctx, client, given); err != nil {
		return nil, err
	}
	return map[string][]record{"records": records}, nil
}

func balancing(protocol string) []kgo.Opt {
	if protocol == "consumer" {
		return []kgo.Opt{kgo.ServerSideBalancer(), kgo.Balancers(kgo.RangeBalancer())}
	}
	return []kgo.Opt{kgo.Balancers(kgo.CooperativeStickyBalancer())}
}

// usesProtocol fails if the client fell back to another group protocol than the one asked for.
func usesProtocol(ctx context.Context, client *kgo.Client, given parameters) error {
	if given.Protocol == "" {
		return nil
	}
	groups, err := kadm.NewClient(client).ListGroups(ctx)
	if err != nil {
		return fmt.Errorf("list groups: %w", err)
	}
	if got := groups[given.Group].GroupType; !strings.EqualFold(got, given.Protocol) {
		return fmt.Errorf("group %q is of type %q, not %q", given.Group, got, given.Protocol)
	}
	return nil
}

// poll returns `count` records, or those that came in time.
func poll(ctx context.Context, client *kgo.Client, count int, taken func([]*kgo.Record)) ([]record, error) {
	records := []record{}
	for len(records) < count {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			break
		}
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("fetch: %w", err)
		}
		fetches.EachRecord(func(each *kgo.Record) { records = append(records, received(each)) })
		taken(fetches.Records())
	}
	return records, nil
}

func transactions(ctx context.Context, given parameters) (any, error) {
	client, err := kgo.NewClient(append(connection(given),
		kgo.TransactionalID(given.TransactionalID),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	for _, part := range []struct {
		records []record
		end     kgo.TransactionEndTry
	}{{given.Committed, kgo.TryCommit}, {given.Aborted, kgo.TryAbort}} {
		if err := client.BeginTransaction(); err != nil {
			return nil, fmt.Errorf("begin: %w", err)
		}
		if err := send(ctx, client, given.Topic, part.records); err != nil {
			return nil, err
		}
		if err := client.EndTransaction(ctx, part.end); err != nil {
			return nil, fmt.Errorf("end: %w", err)
		}
	}
	return map[string]int{"committed": len(given.Committed)}, nil
}

func share(ctx context.Context, given parameters) (any, error) {
	var failed []error
	client, err := kgo.NewClient(append(connection(given),
		kgo.ShareGroup(given.Group),
		kgo.ConsumeTopics(given.Topic),
		kgo.ShareAckCallback(func(_ *kgo.Client, results kgo.ShareAckResults) {
			if err := results.Error(); err != nil {
				failed = append(failed, err)
			}
		}),
	)...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if err := readFromStart(ctx, client, given.Group); err != nil {
		return nil, err
	}
	records, err := poll(ctx, client, given.Count, func(records []*kgo.Record) {
		client.MarkAcks(kgo.AckAccept, records...)
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	// The acknowledgements' results are handed over before this returns.
	if err := client.FlushAcks(ctx); err != nil {
		return nil, fmt.Errorf("acknowledge: %w", err)
	}
	if len(failed) > 0 {
		return nil, fmt.Errorf("acknowledge: %w", failed[0])
	}
	return map[string][]record{"records": records}, nil
}

// readFromStart makes a share group begin at the earliest record, which is a setting of the group.
func readFromStart(ctx context.Context, client *kgo.Client, group string) error {
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Value = "share.auto.offset.reset", kmsg.StringPtr("earliest")
	resource.Configs = append(resource.Configs, config)
	request.Resources = append(request.Resources, resource)
	answer, err := request.RequestWith(ctx, client)
	if err != nil {
		return fmt.Errorf("configure group: %w", err)
	}
	for _, each := range answer.Resources {
		if err := kerr.ErrorForCode(each.ErrorCode); err != nil {
			return fmt.Errorf("configure group: %w", err)
		}
	}
	return nil
}

func sorted(partitions map[int32]bool) []int32 {
	numbers := []int32{}
	for partition := range partitions {
		numbers = append(numbers, partition)
	}
	slices.Sort(numbers)
	return numbers
}
