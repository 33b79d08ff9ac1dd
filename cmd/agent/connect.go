package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"kusto-agent/config"
	"kusto-agent/internal/exit"
	"kusto-agent/kusto"
)

// connection is a client of one cluster, for a command that is not the agent.
type connection struct {
	*kusto.Client
	cluster config.Cluster
	tokens  *kusto.Tokens
}

// connect makes a client as the agent would. An empty name is the cluster of the
// top level, or the only one there is.
func connect(cfg *config.Config, name string) (*connection, error) {
	return dial(cfg, name, false)
}

// dial is connect; with queryOnly for what takes no data, too.
func dial(cfg *config.Config, name string, queryOnly bool) (*connection, error) {
	names := slices.Sorted(maps.Keys(cfg.Clusters))
	if name == "" && len(names) == 1 {
		name = names[0]
	}
	name = cmp.Or(name, config.DefaultCluster)
	c, ok := cfg.Clusters[name]
	if !ok {
		return nil, exit.With(exit.Usage, fmt.Errorf("there is no cluster %q; the configuration has %s", name, strings.Join(names, ", ")))
	}
	key := keyOf(name, c, cfg)
	key.queryOnly = queryOnly
	to, err := newService(key, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, exit.With(exit.Config, fmt.Errorf("cluster %s: %w", name, err))
	}
	return &connection{to.client, c, to.tokens}, nil
}

// close gives back the connections.
func (c *connection) close() {
	c.Client.Close()
	c.tokens.Close()
}

// serviceError makes the end of a command of what the service said.
func serviceError(err error) error {
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

// explained is an error of the service with what to do about it on a line of its own.
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
