package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/IBM/sarama"
)

var codecs = map[string]sarama.CompressionCodec{
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
	"lz4":    sarama.CompressionLZ4,
	"zstd":   sarama.CompressionZSTD,
}

var acknowledgements = map[string]sarama.RequiredAcks{
	"0": sarama.NoResponse, "1": sarama.WaitForLocal, "all": sarama.WaitForAll,
}

func skipped(why string) (any, error) {
	return map[string]string{"skipped": why}, nil
}

func noShareGroups(context.Context, parameters) (any, error) {
	return skipped("no share consumer")
}

func servers(given parameters) []string {
	return strings.Split(given.Bootstrap, ",")
}

// settings are those of every client here: the newest versions that the library has, and partitions as given.
func settings() *sarama.Config {
	config := sarama.NewConfig()
	config.ClientID = "interop-sarama"
	config.Version = sarama.MaxVersion
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Return.Successes = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Return.Errors = true
	return config
}

func produce(_ context.Context, given parameters) (any, error) {
	config := settings()
	var known bool
	if config.Producer.Compression, known = codecs[given.Codec]; !known {
		return nil, fmt.Errorf("unknown codec %q", given.Codec)
	}
	if config.Producer.RequiredAcks, known = acknowledgements[given.Acks]; !known {
		return nil, fmt.Errorf("unknown acks %q", given.Acks)
	}
	if given.Acks == "all" {
		idempotent(config)
	}
	if err := send(given, config, given.Records); err != nil {
		return nil, err
	}
	return map[string]int{"sent": len(given.Records)}, nil
}

func idempotent(config *sarama.Config) {
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Idempotent = true
	config.Net.MaxOpenRequests = 1 // the library asks for it
}

func send(given parameters, config *sarama.Config, records []record) error {
	messages, err := made(given.Topic, records)
	if err != nil {
		return err
	}
	producer, err := sarama.NewSyncProducer(servers(given), config)
	if err != nil {
		return err
	}
	if err := producer.SendMessages(messages); err != nil {
		_ = producer.Close()
		return err
	}
	return producer.Close()
}

func made(topic string, records []record) ([]*sarama.ProducerMessage, error) {
	messages := make([]*sarama.ProducerMessage, 0, len(records))
	for _, each := range records {
		message := &sarama.ProducerMessage{Topic: topic, Partition: each.Partition}
		// An encoder of a nil slice is not nil: it would write an empty key where there is none.
		if each.Key != nil {
			message.Key = sarama.ByteEncoder(each.Key)
		}
		if each.Value != nil {
			message.Value = sarama.ByteEncoder(each.Value)
		}
		for _, header := range each.Headers {
			value, err := decoded(header)
			if err != nil {
				return nil, err
			}
			message.Headers = append(message.Headers, sarama.RecordHeader{Key: []byte(*header[0]), Value: value})
		}
		messages = append(messages, message)
	}
	return messages, nil
}

func received(message *sarama.ConsumerMessage) record {
	result := record{
		Partition: message.Partition, Key: message.Key, Value: message.Value, Headers: [][2]*string{},
		Offset: &message.Offset,
	}
	for _, header := range message.Headers {
		result.Headers = append(result.Headers, encoded(string(header.Key), header.Value))
	}
	return result
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

func transactions(_ context.Context, given parameters) (any, error) {
	config := settings()
	idempotent(config)
	config.Producer.Transaction.ID = given.TransactionalID
	producer, err := sarama.NewSyncProducer(servers(given), config)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	for _, part := range []struct {
		records []record
		end     func() error
	}{{given.Committed, producer.CommitTxn}, {given.Aborted, producer.AbortTxn}} {
		messages, err := made(given.Topic, part.records)
		if err != nil {
			return nil, err
		}
		if err := producer.BeginTxn(); err != nil {
			return nil, fmt.Errorf("begin: %w", err)
		}
		if err := producer.SendMessages(messages); err != nil {
			return nil, fmt.Errorf("send: %w", err)
		}
		if err := part.end(); err != nil {
			return nil, fmt.Errorf("end: %w", err)
		}
	}
	return map[string]int{"committed": len(given.Committed)}, nil
}
