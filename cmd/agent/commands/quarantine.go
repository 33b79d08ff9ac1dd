package commands

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"kusto-agent/internal/console"
	"kusto-agent/internal/custody"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/stored"
	"kusto-agent/internal/telemetry"
	"kusto-agent/internal/units"
)

func quarantineCommand() *cobra.Command {
	return group("quarantine", "Show the records that were refused, and why, and have them sent again or given up",
		quarantineListCommand(), quarantineShowCommand(), quarantineExportCommand(), quarantineRequeueCommand(), quarantineRemoveCommand())
}

// records returns the list of the records in quarantine that ids, arguments of the command, and the
// flags choose. It is not read yet. The error is that of a wrong flag.
func (k *kept) records(cmd *cobra.Command, ids []string) (*stored.Records, error) {
	f, err := k.choose(ids)
	return &stored.Records{Filter: f, JSON: k.json, Out: console.NewOutput(cmd.OutOrStdout()), Words: cmd.ErrOrStderr()}, err
}

// refused returns the list that records returns, and the folder of quarantine to read.
func (k *kept) refused(cmd *cobra.Command, ids []string) (l *stored.Records, dir string, err error) {
	if l, err = k.records(cmd, ids); err == nil {
		dir, err = k.folder(quarantineFolder)
	}
	return l, dir, err
}

// quarantineListCommand returns the command quarantine ls, with its help and its flags.
func quarantineListCommand() *cobra.Command {
	var k kept
	cmd := &cobra.Command{
		Use:   "ls [ID…]",
		Short: "List the records in quarantine, oldest first",
		Long: "List the records in quarantine, oldest first, whether the agent runs or not.\n" +
			"The exit code is 1 if a line in quarantine is damaged.",
		RunE: func(cmd *cobra.Command, args []string) error {
			l, dir, err := k.refused(cmd, args)
			if err != nil {
				return err
			}
			err = l.Out.End(l.List(dir))
			if err == nil {
				fmt.Fprintf(l.Words, "%s in %s\n", l.Sum(), telemetry.Printable(dir))
				err = l.Verdict()
			}
			return err
		},
	}
	k.reads(cmd, "quarantine")
	cmd.Flags().BoolVar(&k.json, "json", false, "print the stored JSON lines, with control characters escaped")
	k.chooses(cmd, "records")
	return cmd
}

// quarantineShowCommand returns the command quarantine show, with its help and its flags.
func quarantineShowCommand() *cobra.Command {
	var k kept
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Print the bytes of a record in quarantine, as they were in its file",
		Long: "Print the bytes of a record in quarantine, as they were in its file; ID is from quarantine ls.\n" +
			"Of an input that redacts they are those that were sent, or none.\n" +
			"On a terminal, bytes that could steer it are quoted.",
		Args: oneOf("ID", "quarantine ls"),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, dir, err := k.refused(cmd, nil)
			if err != nil {
				return err
			}
			return l.Out.End(l.Show(dir, args[0]))
		},
	}
	k.reads(cmd, "quarantine")
	cmd.Flags().BoolVar(&k.json, "json", false, "print the stored JSON line, with the reason and the place of the record")
	return cmd
}

// quarantineExportCommand returns the command quarantine export, with its help and its flags.
func quarantineExportCommand() *cobra.Command {
	var k kept
	var to string
	cmd := &cobra.Command{
		Use:   "export [ID…]",
		Short: "Write the records in quarantine, as they were in their files",
		Long: "Write the records in quarantine, as they were in their files, one behind the other. Nothing is changed.\n" +
			"Of an input that redacts they are as they were sent; those of which no bytes are kept are left out and counted.",
		RunE: func(cmd *cobra.Command, args []string) error {
			l, dir, err := k.refused(cmd, args)
			if err != nil {
				return err
			}
			if err = l.Out.End(l.Export(dir, to)); err != nil {
				return err
			}
			fmt.Fprintf(l.Words, "%s exported\n", units.Counted(l.Count-l.Withheld, "record"))
			if l.Withheld > 0 {
				fmt.Fprintf(l.Words, "left out, since their bytes are withheld: %d\n", l.Withheld)
			}
			if l.Cut > 0 {
				fmt.Fprintf(l.Words, "of these, with their beginning alone, which is what was kept: %d\n", l.Cut)
			}
			return l.Verdict()
		},
	}
	k.reads(cmd, "quarantine")
	cmd.Flags().BoolVar(&k.json, "json", false, "write the stored JSON lines, which have reasons and places of the records, with control characters escaped")
	cmd.Flags().StringVar(&to, "to", "", "write to this new `file`")
	k.chooses(cmd, "records")
	return cmd
}

// sift returns which records in quarantine ids, arguments of the command, and the flags choose to
// be changed, and shows the first of them on stderr.
// If certain is true, records that may be stored already are left out unless ids names them.
func (k *kept) sift(cmd *cobra.Command, ids []string, certain bool) (*stored.Choice, error) {
	l, dir, err := k.refused(cmd, ids)
	if err != nil {
		return nil, err
	}
	l.Certain = certain
	return l.Choose(dir, cmd.ErrOrStderr(), k.all)
}

// quarantineRemoveCommand returns the command quarantine rm, with its help and its flags.
func quarantineRemoveCommand() *cobra.Command {
	var k kept
	cmd := &cobra.Command{
		Use:   "rm [ID…]",
		Short: "Give up records in quarantine",
		Long: "Give up records in quarantine. What was chosen is shown, and asked for on a terminal.\n" +
			"They are counted as dropped, and audit names their ranges as given up by a person.\n" +
			"An agent that runs is asked to do it; the folders of one that does not are locked meanwhile.",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := k.sift(cmd, args, false)
			return k.remove(cmd, c, err, func(ctx context.Context, keeper custody.Keeper) (*custody.Removed, error) {
				return keeper.RemoveLines(ctx, custody.RemoveLines{Lines: c.IDs})
			}, func(r *custody.Removed) string { return units.Counted(r.Records, "record") })
		},
	}
	k.changes(cmd)
	k.asks(cmd)
	k.chooses(cmd, "records")
	return cmd
}

// quarantineRequeueCommand returns the command quarantine requeue, with its help and its flags.
func quarantineRequeueCommand() *cobra.Command {
	var k kept
	var to, mapping string
	var doubtful bool
	cmd := &cobra.Command{
		Use:   "requeue [ID…]",
		Short: "Send records in quarantine again",
		Long: "Send records in quarantine again, shaped as their inputs are configured now, to their table or another one.\n" +
			"Only those that the service accepts leave quarantine. One that is refused stays with the new reason; one of which\n" +
			"no answer came that can be trusted stays too, and is marked, since it may be stored. It is sent once more only if its\n" +
			"ID is given, or --perhaps-stored.\n" +
			"Redacted records can be sent only as they were sent before, and not at all where their bytes are withheld.\n" +
			"A block of an Avro file that the service refused is sent behind the header of its file; one that the agent rejected is not.\n" +
			"An agent that runs is asked to do it; the folders of one that does not are locked meanwhile.\n\n" +
			"The exit code is 1 if a record was not accepted, 69 if the service was out of reach, and 77 if it refused the identity.",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := k.sift(cmd, args, !doubtful)
			if err != nil || len(c.IDs) == 0 {
				err = k.nothing(cmd, err, &custody.Requeued{Batches: []custody.Batch{}, Notes: []custody.Outcome{}})
				if err == nil && c.LeftOut > 0 {
					err = exit.Silently(exit.Failed)
				}
				return err
			}
			r := custody.Requeue{Lines: c.IDs, Table: to}
			if cmd.Flags().Changed("mapping") {
				r.Mapping = &mapping
			}
			return k.change(cmd, func(ctx context.Context, keeper custody.Keeper) error {
				out, err := keeper.Requeue(ctx, r)
				if err != nil {
					return err
				}
				if err := k.done(cmd, out, out.Words()...); err != nil {
					return err
				}
				switch {
				case out.Stopped != "":
					return exit.With(out.Exit, errors.New(out.Stopped))
				case out.Refused+out.Unknown+out.Withheld+c.LeftOut > 0:
					return exit.Silently(exit.Failed)
				}
				return nil
			})
		},
	}
	k.changes(cmd)
	k.chooses(cmd, "records")
	cmd.Flags().StringVar(&to, "to", "", "send them to this `table` of the same database")
	cmd.Flags().BoolVar(&doubtful, "perhaps-stored", false, "send those too that may be stored already, and so perhaps twice")
	cmd.Flags().StringVar(&mapping, "mapping", "", "send them by this `mapping`; empty for none")
	return cmd
}
