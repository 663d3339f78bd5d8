package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

type node struct {
	ID   int32  `json:"id"`
	Host string `json:"host"`
	Port int    `json:"port"`
}

func admin(ctx context.Context, given parameters) (any, error) {
	administrator, err := sarama.NewClusterAdmin(servers(given), settings())
	if err != nil {
		return nil, err
	}
	defer administrator.Close()
	detail := &sarama.TopicDetail{NumPartitions: given.Partitions, ReplicationFactor: given.Replication}
	if err := administrator.CreateTopic(given.Topic, detail, false); err != nil {
		return nil, fmt.Errorf("create topic: %w", err)
	}
	var described []*sarama.TopicMetadata
	err = until(ctx, "every partition has a leader", func() bool {
		described, err = administrator.DescribeTopics([]string{given.Topic})
		if err != nil || described[0].Err != sarama.ErrNoError {
			return false
		}
		for _, partition := range described[0].Partitions {
			if partition.Err != sarama.ErrNoError || partition.Leader < 0 {
				return false
			}
		}
		return len(described[0].Partitions) == int(given.Partitions)
	})
	if err != nil {
		return nil, err
	}
	nodes, err := describeCluster(administrator)
	if err != nil {
		return nil, err
	}
	wanted := map[int32]int64{}
	for _, partition := range described[0].Partitions {
		wanted[partition.ID] = sarama.OffsetNewest
	}
	offsets := map[string]int64{}
	// A new leader is in the metadata before it knows so itself, and this call does not try again.
	var last error = sarama.ErrNoError
	err = until(ctx, "every leader tells its offset", func() bool {
		var listed map[string]map[int32]*sarama.OffsetResult
		if listed, err = administrator.ListOffsets(map[string]map[int32]int64{given.Topic: wanted}, nil); err != nil {
			return false
		}
		for partition, result := range listed[given.Topic] {
			if last = result.Err; last != sarama.ErrNoError {
				return false
			}
			offsets[strconv.Itoa(int(partition))] = result.Offset
		}
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("list offsets: %w (%w)", err, last)
	}
	if _, err := administrator.ListConsumerGroups(); err != nil {
		return nil, fmt.Errorf("list groups: %w", err)
	}
	if err := administrator.DeleteTopic(given.Topic); err != nil {
		return nil, fmt.Errorf("delete topic: %w", err)
	}
	return map[string]any{"nodes": nodes, "partitions": len(described[0].Partitions), "offsets": offsets}, nil
}

func describeCluster(administrator sarama.ClusterAdmin) ([]node, error) {
	brokers, _, err := administrator.DescribeCluster()
	if err != nil {
		return nil, fmt.Errorf("describe cluster: %w", err)
	}
	nodes := []node{}
	for _, broker := range brokers {
		host, port, err := net.SplitHostPort(broker.Addr())
		if err != nil {
			return nil, err
		}
		number, err := strconv.Atoi(port)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, node{broker.ID(), host, number})
	}
	return nodes, nil
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
	secured := func() *sarama.Config {
		config := settings()
		config.Net.TLS.Enable = true
		config.Net.TLS.Config = &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}
		config.Net.SASL.Enable = true
		config.Net.SASL.User, config.Net.SASL.Password = given.User, given.Password
		config.Net.SASL.Mechanism = sarama.SASLMechanism(given.Mechanism)
		switch given.Mechanism {
		case "SCRAM-SHA-256":
			config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient {
				return &conversation{hash: scram.SHA256}
			}
		case "SCRAM-SHA-512":
			config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient {
				return &conversation{hash: scram.SHA512}
			}
		}
		return config
	}
	config := secured()
	idempotent(config)
	if err := send(given, config, given.Records); err != nil {
		return nil, err
	}
	given.Count = len(given.Records)
	return consumeWith(ctx, given, secured())
}

// A conversation is SCRAM as sarama wants it: the library leaves the mechanism to its users.
type conversation struct {
	*scram.ClientConversation
	hash scram.HashGeneratorFcn
}

func (c *conversation) Begin(user, password, authorization string) error {
	client, err := c.hash.NewClient(user, password, authorization)
	if err != nil {
		return err
	}
	c.ClientConversation = client.NewConversation()
	return nil
}
