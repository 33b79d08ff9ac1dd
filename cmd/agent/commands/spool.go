package commands

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kusto-agent/internal/config"
	"kusto-agent/internal/console"
	"kusto-agent/internal/custody"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/stored"
	"kusto-agent/internal/telemetry"
	"kusto-agent/internal/units"
)

func spoolCommand() *cobra.Command {
	return group("spool", "Show what waits on disk for the service, and have it sent elsewhere or given up",
		spoolListCommand(), spoolInspectCommand(), spoolExportCommand(), spoolReplayCommand(), spoolRemoveCommand())
}

// payloads returns the list of the payloads in the spool that ids, arguments of the command, and
// the flags choose. It is not read yet. The error is that of a wrong flag.
func (k *kept) payloads(cmd *cobra.Command, ids []string) (*stored.Payloads, error) {
	f, err := k.choose(ids)
	return &stored.Payloads{Filter: f, JSON: k.json, Out: console.NewOutput(cmd.OutOrStdout()), Words: cmd.ErrOrStderr(), Now: time.Now()}, err
}

// spoolListCommand returns the command spool ls, with its help and its flags.
func spoolListCommand() *cobra.Command {
	var k kept
	var summary bool
	cmd := &cobra.Command{
		Use:   "ls [BATCH…]",
		Short: "List the payloads in the spool, oldest first",
		Long: "List the payloads in the spool, oldest first, whether the agent runs or not. BATCH is an id, or the beginning of one\n" +
			"payload's id, here and in the other commands.\n" +
			"Payloads that were delivered or given up are left out as the journal knows them. With --dir, which has no journal,\n" +
			"they stay in the list until their segment is removed.\n" +
			"The exit code is 1 if something in the spool is damaged.",
		RunE: func(cmd *cobra.Command, args []string) error {
			l, dir, err := k.waiting(cmd, args)
			if err != nil {
				return err
			}
			l.Summary = summary
			err = l.Out.End(l.List(dir))
			if err == nil {
				fmt.Fprintln(cmd.ErrOrStderr(), l.Total.Words()+" in "+telemetry.Printable(dir))
				err = l.Total.Verdict()
			}
			return err
		},
	}
	k.reads(cmd, "spool")
	k.chooses(cmd, "payloads")
	cmd.Flags().BoolVar(&k.json, "json", false, "print one JSON document per line")
	cmd.Flags().BoolVar(&summary, "summary", false, "print sums per table")
	return cmd
}

// spoolInspectCommand returns the command spool inspect, with its help and its flags.
func spoolInspectCommand() *cobra.Command {
	var k kept
	var first int
	cmd := &cobra.Command{
		Use:   "inspect BATCH",
		Short: "Show what a payload in the spool is, why it waits, and its first records",
		Long: "Show what a payload in the spool is: where it goes, what it holds and from where, how often it was sent, and its\n" +
			"first records. BATCH is from spool ls, or the beginning of it. Why it waits is asked of the agent, if it runs.",
		Args: oneOf("BATCH", "spool ls"),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, dir, err := k.waiting(cmd, nil)
			if err != nil {
				return err
			}
			var status *telemetry.Status
			if k.cfg != nil {
				status, _ = telemetry.FetchStatus(cmd.Context(), k.cfg.StateDir) // nil if no agent runs or answers
			}
			return l.Out.End(l.Inspect(dir, args[0], first, stored.Waits(status)))
		},
	}
	k.reads(cmd, "spool")
	cmd.Flags().BoolVar(&k.json, "json", false, "print one JSON document")
	countVar(cmd.Flags(), &first, "records", 5, "how many of its records are shown")
	return cmd
}

// spoolExportCommand returns the command spool export, with its help and its flags.
func spoolExportCommand() *cobra.Command {
	var k kept
	var to string
	cmd := &cobra.Command{
		Use:   "export [BATCH…]",
		Short: "Write the bytes of payloads in the spool, as they are before gzip",
		Long: "Write the bytes of payloads in the spool, as they are before gzip, to stdout or each to a file in a folder.\n" +
			"Nothing is changed: they are sent all the same. Payloads that were delivered meanwhile are left out.",
		RunE: func(cmd *cobra.Command, args []string) error {
			l, dir, err := k.waiting(cmd, args)
			if err != nil {
				return err
			}
			err = l.Out.End(l.Export(dir, to))
			if err == nil {
				fmt.Fprintln(cmd.ErrOrStderr(), l.Total.Words()+" exported")
				err = l.Total.Verdict()
			}
			return err
		},
	}
	k.reads(cmd, "spool")
	k.chooses(cmd, "payloads")
	cmd.Flags().StringVar(&to, "to", "", "write each payload to a file of its own in this `folder`, which is made")
	return cmd
}

// waiting returns the list of the payloads in the spool that ids and the flags choose, and the
// folder of the spool. Payloads that were delivered or given up, as the journal records, are left out:
// they stay in the spool until their segment is removed. They are not left out if --dir names the
// folder: then the journal is not known.
func (k *kept) waiting(cmd *cobra.Command, ids []string) (l *stored.Payloads, dir string, err error) {
	if l, err = k.payloads(cmd, ids); err != nil {
		return nil, "", err
	}
	if dir, err = k.folder(func(c *config.Config) string { return spoolFolder(cmd.Context(), c.StateDir, c.Spool.Dir) }); err == nil && k.cfg != nil {
		l.Ended, err = stored.EndedIn(k.cfg.StateDir)
	}
	return l, dir, exit.Reading(err)
}

// pick returns which payloads in the spool ids, arguments of the command, and the flags choose to
// be changed, and shows the first of them on stderr. Payloads that have ended are left out.
func (k *kept) pick(cmd *cobra.Command, ids []string) (*stored.Choice, error) {
	l, dir, err := k.waiting(cmd, ids)
	if err != nil {
		return nil, err
	}
	return l.Choose(dir, cmd.ErrOrStderr(), k.all)
}

// spoolRemoveCommand returns the command spool rm, with its help and its flags.
func spoolRemoveCommand() *cobra.Command {
	var k kept
	cmd := &cobra.Command{
		Use:   "rm [BATCH…]",
		Short: "Give up payloads in the spool",
		Long: "Give up payloads in the spool: they are never sent. What was chosen is shown, and asked for on a terminal.\n" +
			"Their records are counted as dropped, and audit names their ranges as given up by a person.\n" +
			"An agent that runs is asked to do it; the folders of one that does not are locked meanwhile.\n" +
			"What the agent has in hand just now stays; the exit code is then 1.",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := k.pick(cmd, args)
			return k.remove(cmd, c, err, func(ctx context.Context, keeper custody.Keeper) (*custody.Removed, error) {
				return keeper.RemoveSpooled(ctx, custody.RemoveSpooled{Batches: c.IDs})
			}, func(r *custody.Removed) string {
				return units.Counted(r.Payloads, "payload") + " with " + units.Counted(r.Records, "record")
			})
		},
	}
	k.changes(cmd)
	k.asks(cmd)
	k.chooses(cmd, "payloads")
	return cmd
}

// spoolReplayCommand returns the command spool replay, with its help and its flags.
func spoolReplayCommand() *cobra.Command {
	var k kept
	var to string
	cmd := &cobra.Command{
		Use:   "replay [BATCH…]",
		Short: "Have what waits for one cluster sent to another",
		Long: "Have what waits in the spool for one cluster sent to another, such as after its URL was wrong.\n" +
			"An agent that runs sends the payloads at once; one that is stopped does after its next start.",
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := k.load()
			if err != nil {
				return err
			}
			if _, known := cfg.Clusters[to]; !known {
				return exit.Usagef("--to %q is no cluster of the configuration; it has %s", to, strings.Join(slices.Sorted(maps.Keys(cfg.Clusters)), ", "))
			}
			k.filter.Cluster = config.ClusterURL(k.filter.Cluster)
			c, err := k.pick(cmd, args)
			if err != nil {
				return err
			}
			if len(c.IDs) == 0 || cfg.Clusters[to].URL == k.filter.Cluster {
				return exit.With(exit.Failed, fmt.Errorf("nothing in the spool waits for %s; see kusto-agent spool ls", k.filter.Cluster))
			}
			return k.change(cmd, func(ctx context.Context, keeper custody.Keeper) error {
				r, err := keeper.Replay(ctx, custody.Replay{From: k.filter.Cluster, To: to, Batches: c.IDs})
				if err != nil {
					return err
				}
				words := units.Counted(r.Payloads, "payload") + " sent elsewhere"
				if r.Later {
					words += " after the next start of the agent, or its next reload"
				}
				return k.done(cmd, r, words)
			})
		},
	}
	k.changes(cmd)
	k.chooses(cmd, "payloads")
	cmd.Flags().StringVar(&k.filter.Cluster, "cluster", "", "the `URL` that the payloads wait for, as spool ls shows it")
	cmd.Flags().StringVar(&to, "to", config.DefaultCluster, "the `name` of the cluster in the configuration that they are sent to")
	_ = cmd.MarkFlagRequired("cluster") // fails only for an unknown flag
	return cmd
}
