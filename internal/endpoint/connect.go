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

// Dial returns a client for the cluster with this name in cfg; "" means the only one or the default
// one. It makes no request. With queryOnly it also accepts a cluster that answers queries but takes
// no data. Errors have exit codes. The caller closes the connection.
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

// Failure returns err with an exit code: that for a refused identity, an unreachable service, or
// any other failure. The text of an error of the service gets its hint on a second line. nil, and
// errors that have an exit code already, are returned unchanged.
func Failure(err error) error {
	var ended *exit.Error
	if err == nil || errors.As(err, &ended) {
		return err
	}
	code := CodeOf(err)
	if e, ok := errors.AsType[*kusto.Error](err); ok {
		err = errors.New(explained(e))
	}
	return exit.With(code, err)
}

// CodeOf returns the exit code for the error of a request: that for a refused identity, an
// unreachable service, or any other failure.
func CodeOf(err error) int {
	e, ok := errors.AsType[*kusto.Error](err)
	switch {
	case ok && e.Refused():
		return exit.Refused
	case kusto.Unreached(err):
		return exit.Unreachable
	}
	return exit.Failed
}

// explained returns the text of an error of the service, with its hint on a second line. An error
// after the first rows of a result says that the result is incomplete.
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
