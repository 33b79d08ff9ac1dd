package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kusto-agent/internal/config"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/record"
	"kusto-agent/internal/statedir"
	"kusto-agent/internal/units"
	"kusto-agent/spool"
)

func spoolReplayCommand() *cobra.Command {
	var path, from, to string
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Have what waits for one cluster sent to another",
		Long: "Have what waits in the spool for one cluster sent to another, such as after its URL was wrong.\n" +
			"The agent must be stopped; it sends the payloads after its next start.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(path)
			if err != nil {
				return err
			}
			n, err := replayTo(cfg, from, to)
			if n > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s sent elsewhere after the next start of the agent\n", units.Counted(n, "payload"))
			}
			return err
		},
	}
	cmd.Flags().StringVar(&path, "config", config.DefaultPath, "the configuration `file`")
	cmd.Flags().StringVar(&from, "cluster", "", "the `URL` that the payloads wait for, as spool ls shows it")
	cmd.Flags().StringVar(&to, "to", config.DefaultCluster, "the `name` of the cluster in the configuration that they are sent to")
	_ = cmd.MarkFlagRequired("cluster") // fails for a flag that is not there
	return cmd
}

// replayTo moves what the spool has for one cluster to another.
func replayTo(cfg *config.Config, from, name string) (moved int, err error) {
	c, known := cfg.Clusters[name]
	if !known {
		return 0, exit.With(exit.Usage, fmt.Errorf("--to %q is no cluster of the configuration; it has %s", name, strings.Join(slices.Sorted(maps.Keys(cfg.Clusters)), ", ")))
	}
	lock, err := statedir.Lock(cfg.StateDir, slog.New(slog.DiscardHandler))
	if err != nil {
		return 0, err
	}
	defer lock.Close()
	s, found, err := spool.Open(cfg.Spool.Dir, cfg.Spool, spool.Options{})
	if err != nil {
		return 0, exit.With(exit.Failed, err)
	}
	defer func() {
		if cerr := s.Close(); err == nil && cerr != nil {
			err = exit.With(exit.Failed, cerr)
		}
	}()
	routes := slices.SortedFunc(slices.Values(s.Routes()), func(a, b record.Route) int { return cmp.Compare(a.String(), b.String()) })
	routes = slices.DeleteFunc(routes, func(r record.Route) bool { return r.Cluster != from || from == c.URL })
	if len(routes) == 0 {
		return 0, exit.With(exit.Failed, errors.Join(fmt.Errorf("nothing in the spool waits for %s; see kusto-agent spool ls", from), problemsOf(found)))
	}
	for _, r := range routes {
		n, err := s.Reroute(r, c.URL, nil)
		if moved += n; err != nil {
			return moved, exit.With(exit.Failed, errors.Join(err, problemsOf(found)))
		}
	}
	return moved, nil
}

func problemsOf(found *spool.Recovery) error {
	if len(found.Problems) == 0 {
		return nil
	}
	return errors.New(strings.Join(found.Problems, "\n"))
}
