// Command client runs one operation of the interop suite with franz-go.
//
// In: an operation's name as the argument, its parameters as JSON on stdin. Out: one JSON object on stdout.
// It must never print anything else on stdout, and ends with an exit code other than 0 after any failure.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"time"
)

const (
	defaultTimeout = 60 * time.Second
	closeTimeout   = 15 * time.Second // for what follows after the time to consume is over
)

// A record as the suite writes it: keys, values and header values are base64 on both ways.
// Headers are pairs of a name and a value that may be null.
type record struct {
	Partition int32        `json:"partition"`
	Key       []byte       `json:"key"`
	Value     []byte       `json:"value"`
	Headers   [][2]*string `json:"headers"`
	Offset    *int64       `json:"offset,omitempty"`
}

type parameters struct {
	Bootstrap       string   `json:"bootstrap"`
	Topic           string   `json:"topic"`
	Group           string   `json:"group"`
	Acks            string   `json:"acks"`
	Codec           string   `json:"codec"`
	Count           int      `json:"count"`
	Isolation       string   `json:"isolation"`
	Protocol        string   `json:"protocol"`
	TimeoutSeconds  float64  `json:"timeout_s"`
	TransactionalID string   `json:"transactional_id"`
	Partitions      int32    `json:"partitions"`
	Replication     int16    `json:"replication"`
	Records         []record `json:"records"`
	Committed       []record `json:"committed"`
	Aborted         []record `json:"aborted"`
	CAFile          string   `json:"ca_file"`
	User            string   `json:"user"`
	Password        string   `json:"password"`
	Mechanism       string   `json:"mechanism"`
}

type operation func(context.Context, parameters) (any, error)

var operations = map[string]operation{
	"produce":            produce,
	"consume":            consume,
	"transactions":       transactions,
	"rebalance":          rebalance,
	"share":              share,
	"share_offsets":      shareOffsets,
	"admin":              admin,
	"roundtrip_sasl_tls": roundtripSASLTLS,
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 2 || operations[os.Args[1]] == nil {
		return fmt.Errorf("usage: client OPERATION < parameters.json")
	}
	var given parameters
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		return fmt.Errorf("parameters on stdin: %w", err)
	}
	timeout := defaultTimeout
	if given.TimeoutSeconds > 0 {
		timeout = time.Duration(given.TimeoutSeconds * float64(time.Second))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	result, err := operations[os.Args[1]](ctx, given)
	if err != nil {
		return fmt.Errorf("%s: %w", os.Args[1], err)
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}
