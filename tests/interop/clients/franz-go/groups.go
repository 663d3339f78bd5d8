package main

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A member is a consumer of a group that knows which partitions it has.
type member struct {
	client *kgo.Client
	mu     sync.Mutex
	has    map[int32]bool
	done   chan struct{}
}

func join(ctx context.Context, given parameters) (*member, error) {
	joined := &member{has: map[int32]bool{}, done: make(chan struct{})}
	change := func(now bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
			joined.mu.Lock()
			defer joined.mu.Unlock()
			for _, partition := range changed[given.Topic] {
				if now {
					joined.has[partition] = true
				} else {
					delete(joined.has, partition)
				}
			}
		}
	}
	options := append(connection(given),
		kgo.ConsumerGroup(given.Group),
		kgo.ConsumeTopics(given.Topic),
		kgo.OnPartitionsAssigned(change(true)),
		kgo.OnPartitionsRevoked(change(false)),
		kgo.OnPartitionsLost(change(false)),
	)
	client, err := kgo.NewClient(append(options, balancing(given.Protocol)...)...)
	if err != nil {
		return nil, err
	}
	joined.client = client
	go func() {
		defer close(joined.done)
		for !client.PollFetches(ctx).IsClientClosed() && ctx.Err() == nil {
		}
	}()
	return joined, nil
}

func (m *member) partitions() map[int32]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.has)
}

func (m *member) leave() {
	m.client.Close()
	<-m.done
}

func rebalance(ctx context.Context, given parameters) (any, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first, err := join(ctx, given)
	if err != nil {
		return nil, err
	}
	defer first.leave()
	second, err := join(ctx, given)
	if err != nil {
		return nil, err
	}
	defer second.leave()

	var ones, others map[int32]bool
	err = until(ctx, "both members share the partitions", func() bool {
		ones, others = first.partitions(), second.partitions()
		union := maps.Clone(ones)
		maps.Copy(union, others)
		return len(ones) > 0 && len(others) > 0 && len(union) == int(given.Partitions) &&
			len(ones)+len(others) == len(union)
	})
	if err != nil {
		return nil, fmt.Errorf("%w (%v and %v)", err, sorted(ones), sorted(others))
	}
	if err := usesProtocol(ctx, second.client, given); err != nil {
		return nil, err
	}
	first.leave()
	var after map[int32]bool
	err = until(ctx, "the member left has all partitions", func() bool {
		after = second.partitions()
		return len(after) == int(given.Partitions)
	})
	if err != nil {
		return nil, fmt.Errorf("%w (%v)", err, sorted(after))
	}
	return map[string][]int32{"first": sorted(ones), "second": sorted(others), "after": sorted(after)}, nil
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
