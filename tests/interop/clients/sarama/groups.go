package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

const onlyClassic = "only the classic group protocol"

// A reader collects records of the claims it is given until it has enough, and commits them.
type reader struct {
	mu      sync.Mutex
	wanted  int
	records []record
	stop    context.CancelFunc
}

func (*reader) Setup(sarama.ConsumerGroupSession) error { return nil }

// Cleanup comes at the end of a session, of the last one too: commit what was read in it.
func (*reader) Cleanup(session sarama.ConsumerGroupSession) error {
	session.Commit()
	return nil
}

func (r *reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			r.take(session, message)
		case <-session.Context().Done():
			return nil
		}
	}
}

func (r *reader) take(session sarama.ConsumerGroupSession, message *sarama.ConsumerMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records = append(r.records, received(message))
	session.MarkMessage(message, "")
	if len(r.records) == r.wanted {
		r.stop()
	}
}

func consume(ctx context.Context, given parameters) (any, error) {
	if given.Protocol == "consumer" {
		return skipped(onlyClassic)
	}
	return consumeWith(ctx, given, settings())
}

func consumeWith(ctx context.Context, given parameters, config *sarama.Config) (any, error) {
	if given.Isolation == "read_committed" {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	consumer, err := sarama.NewConsumerGroup(servers(given), given.Group, config)
	if err != nil {
		return nil, err
	}
	failure := firstOf(consumer.Errors())
	reading, stop := context.WithCancel(ctx)
	defer stop()
	collected := &reader{wanted: given.Count, records: []record{}, stop: stop}
	for reading.Err() == nil {
		if err := consumer.Consume(reading, []string{given.Topic}, collected); err != nil {
			_ = consumer.Close()
			return nil, fmt.Errorf("consume: %w", err)
		}
	}
	if err := consumer.Close(); err != nil {
		return nil, fmt.Errorf("close: %w", err)
	}
	if err := failure(); err != nil {
		return nil, fmt.Errorf("consume: %w", err)
	}
	return map[string][]record{"records": collected.records}, nil
}

// firstOf reads errors until there are no more and then tells the first of them.
func firstOf(failures <-chan error) func() error {
	first := make(chan error, 1)
	go func() {
		defer close(first)
		for failure := range failures {
			select {
			case first <- failure:
			default:
			}
		}
	}()
	return func() error { return <-first }
}

// A member knows which partitions it has.
type member struct {
	topic string
	group sarama.ConsumerGroup
	mu    sync.Mutex
	has   []int32
	done  chan error
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.set(session.Claims()[m.topic])
	return nil
}

func (m *member) Cleanup(sarama.ConsumerGroupSession) error {
	m.set(nil)
	return nil
}

func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, _ sarama.ConsumerGroupClaim) error {
	<-session.Context().Done()
	return nil
}

func (m *member) set(partitions []int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.has = slices.Clone(partitions)
	slices.Sort(m.has)
}

func (m *member) partitions() []int32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.has
}

func join(ctx context.Context, given parameters) (*member, error) {
	config := settings()
	config.Consumer.Return.Errors = false
	config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	group, err := sarama.NewConsumerGroup(servers(given), given.Group, config)
	if err != nil {
		return nil, err
	}
	joined := &member{topic: given.Topic, group: group, done: make(chan error, 1)}
	go func() {
		var err error
		for ctx.Err() == nil && err == nil {
			err = group.Consume(ctx, []string{given.Topic}, joined)
		}
		if errors.Is(err, sarama.ErrClosedConsumerGroup) {
			err = nil
		}
		joined.done <- err
	}()
	return joined, nil
}

func (m *member) leave() error {
	err := m.group.Close()
	return errors.Join(err, <-m.done)
}

func rebalance(ctx context.Context, given parameters) (any, error) {
	if given.Protocol == "consumer" {
		return skipped(onlyClassic)
	}
	first, err := join(ctx, given)
	if err != nil {
		return nil, err
	}
	second, err := join(ctx, given)
	if err != nil {
		return nil, err
	}
	var ones, others []int32
	err = until(ctx, "both members share the partitions", func() bool {
		ones, others = first.partitions(), second.partitions()
		union := append(slices.Clone(ones), others...)
		slices.Sort(union)
		return len(ones) > 0 && len(others) > 0 && len(union) == int(given.Partitions) &&
			len(slices.Compact(union)) == int(given.Partitions)
	})
	if err != nil {
		return nil, fmt.Errorf("%w (%v and %v)", err, ones, others)
	}
	if err := first.leave(); err != nil {
		return nil, fmt.Errorf("leave: %w", err)
	}
	var after []int32
	err = until(ctx, "the member left has all partitions", func() bool {
		after = second.partitions()
		return len(after) == int(given.Partitions)
	})
	if err != nil {
		return nil, fmt.Errorf("%w (%v)", err, after)
	}
	if err := second.leave(); err != nil {
		return nil, fmt.Errorf("leave: %w", err)
	}
	return map[string][]int32{"first": ones, "second": others, "after": after}, nil
}

func until(ctx context.Context, what string, reached func() bool) error {
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for !reached() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("not in time: %s", what)
		case <-again.C:
		}
	}
	return nil
}
