package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type node struct {
	ID   int32  `json:"id"`
	Host string `json:"host"`
	Port int32  `json:"port"`
}

func admin(ctx context.Context, given parameters) (any, error) {
	client, err := kgo.NewClient(connection(given)...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	administrator := kadm.NewClient(client)
	if _, err := administrator.CreateTopic(ctx, given.Partitions, given.Replication, nil, given.Topic); err != nil {
		return nil, fmt.Errorf("create topic: %w", err)
	}
	var detail kadm.TopicDetail
	err = until(ctx, "every partition has a leader", func() bool {
		var metadata kadm.Metadata
		if metadata, err = administrator.Metadata(ctx, given.Topic); err != nil {
			return false
		}
		detail = metadata.Topics[given.Topic]
		for _, partition := range detail.Partitions {
			if partition.Leader < 0 || partition.Err != nil {
				return false
			}
		}
		return detail.Err == nil && len(detail.Partitions) == int(given.Partitions)
	})
	if err != nil {
		return nil, fmt.Errorf("%w (%v)", err, detail)
	}
	nodes, err := describeCluster(ctx, client)
	if err != nil {
		return nil, err
	}
	listed, err := administrator.ListEndOffsets(ctx, given.Topic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list offsets: %w", err)
	}
	offsets := map[string]int64{}
	for partition, offset := range listed[given.Topic] {
		offsets[strconv.Itoa(int(partition))] = offset.Offset
	}
	if _, err := administrator.ListGroups(ctx); err != nil {
		return nil, fmt.Errorf("list groups: %w", err)
	}
	if _, err := administrator.DeleteTopic(ctx, given.Topic); err != nil {
		return nil, fmt.Errorf("delete topic: %w", err)
	}
	return map[string]any{"nodes": nodes, "partitions": len(detail.Partitions), "offsets": offsets}, nil
}

// describeCluster asks with DescribeCluster, and checks that Metadata says the same.
func describeCluster(ctx context.Context, client *kgo.Client) ([]node, error) {
	answer, err := kmsg.NewPtrDescribeClusterRequest().RequestWith(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("describe cluster: %w", err)
	}
	metadata, err := kadm.NewClient(client).BrokerMetadata(ctx)
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	known := map[node]bool{}
	for _, broker := range metadata.Brokers {
		known[node{broker.NodeID, broker.Host, broker.Port}] = true
	}
	nodes := []node{}
	for _, broker := range answer.Brokers {
		described := node{broker.NodeID, broker.Host, broker.Port}
		if !known[described] {
			return nil, fmt.Errorf("metadata does not have %v but %v", described, known)
		}
		nodes = append(nodes, described)
	}
	return nodes, nil
}

// shareOffsets asks for the lag of a share group (DescribeShareGroupOffsets, KIP-1226).
func shareOffsets(ctx context.Context, given parameters) (any, error) {
	client, err := kgo.NewClient(connection(given)...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	described, err := kadm.NewClient(client).DescribeShareGroupOffsets(ctx, given.Group)
	if err == nil {
		err = described.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("describe share group offsets: %w", err)
	}
	lags := map[string]*int64{}
	for partition, offset := range described[given.Group].Offsets[given.Topic] {
		lags[strconv.Itoa(int(partition))] = nil
		if offset.Lag >= 0 {
			lags[strconv.Itoa(int(partition))] = &offset.Lag
		}
	}
	return map[string]any{"lags": lags}, nil
}

func roundtripSASLTLS(ctx context.Context, given parameters) (any, error) {
	certificates, err := os.ReadFile(given.CAFile)
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(certificates) {
		return nil, fmt.Errorf("no certificate in %s", given.CAFile)
	}
	var mechanism sasl.Mechanism
	switch given.Mechanism {
	case "PLAIN":
		mechanism = plain.Auth{User: given.User, Pass: given.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		mechanism = scram.Auth{User: given.User, Pass: given.Password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		mechanism = scram.Auth{User: given.User, Pass: given.Password}.AsSha512Mechanism()
	default:
		return map[string]string{"skipped": "no SASL mechanism " + given.Mechanism}, nil
	}
	options := append(connection(given),
		kgo.SASL(mechanism), kgo.DialTLSConfig(&tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}))
	producer, err := kgo.NewClient(append(options, kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		return nil, err
	}
	err = send(ctx, producer, given.Topic, given.Records)
	producer.Close()
	if err != nil {
		return nil, err
	}
	given.Count = len(given.Records)
	return consumeWith(ctx, given, options)
}
