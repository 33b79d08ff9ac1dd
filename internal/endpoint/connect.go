package endpoint

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"kusto-agent/internal/config"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/credential"
	"kusto-agent/internal/kusto/query"
)

// Connection is a client of one cluster, for a command that is not the agent.
type Connection struct {
	*query.Client
	Cluster config.Cluster
	Tokens  *credential.Tokens
}

// Connect makes a client as the agent would. An empty name is the cluster of the top
// level, or the only one there is. Its error ends a command.
func Connect(cfg *config.Config, name string) (*Connection, error) {
	return Dial(cfg, name, false)
}

// Dial makes a client as Connect does; with queryOnly, one also of a cluster that takes
// no data.
func Dial(cfg *config.Config, name string, queryOnly bool) (*Connection, error) {
	names := slices.Sorted(maps.Keys(cfg.Clusters))
	if name == "" && len(names) == 1 {
		name = names[0]
	}
	name = cmp.Or(name, config.DefaultCluster)
	c, ok := cfg.Clusters[name]
	if !ok {
		return nil, exit.With(exit.Usage, fmt.Errorf("there is no cluster %q; the configuration has %s", name, strings.Join(names, ", ")))
	}
	key := KeyOf(name, c, cfg)
	key.queryOnly = queryOnly
	to, err := New(key, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, exit.With(exit.Config, fmt.Errorf("cluster %s: %w", name, err))
	}
	return &Connection{to.Client, c, to.Tokens}, nil
}

// Close gives back the connections.
func (c *Connection) Close() {
	c.Client.Close()
	c.Tokens.Close()
}

// Failure makes an error of the service the end of a command, with its exit code and with
// what to do about it.
func Failure(err error) error {
	var ended *exit.Error
	if err == nil || errors.As(err, &ended) {
		return err
	}
	var e *kusto.Error
	code := exit.Failed
	if errors.As(err, &e) {
		switch {
		case e.Refused():
			code = exit.Refused
		case kusto.Unreached(e):
			code = exit.Unreachable
		}
		return exit.With(code, errors.New(explained(e)))
	}
	return exit.With(code, err)
}

// explained returns the text of an error of the service, with what to do about it on a line of
// its own.
func explained(e *kusto.Error) string {
	s := e.Error()
	if e.Partial {
		s = "the result is not whole: " + s
	}
	if e.Hint != "" {
		s += "\nto fix it: " + e.Hint
	}
	return s
}
