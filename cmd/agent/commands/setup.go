package commands

import (
	"time"

	"github.com/spf13/cobra"

	"kusto-agent/internal/config"
	"kusto-agent/internal/console"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/setup"
)

// setupCommand returns the command setup, with its help and its flags.
func setupCommand() *cobra.Command {
	s := &setup.Setup{}
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Make tables, mappings and policies for what the files of the inputs hold",
		Long: "Make the table, the mapping and the streaming policy that each input needs: columns and their types are\n" +
			"inferred from the beginning of its newest files. Nothing existing is removed; what is missing is added, and\n" +
			"a second run changes nothing. The commands are printed and run, with --dry-run only printed. At the end the\n" +
			"command waits until the service accepts records for each input; it sends one only with --probe-record.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s.DryRun && s.ProbeRecord {
				return exit.Usagef("--probe-record sends a record, and --dry-run sends nothing: give one of them")
			}
			cfg, err := loadService(s.Path)
			if err != nil {
				return err
			}
			ctx, stop := untilSignal(cmd)
			defer stop()
			s.Out, s.Ask = console.NewOutput(cmd.OutOrStdout()), console.NewAsker(cmd.InOrStdin(), cmd.ErrOrStderr())
			return s.Out.End(s.Run(ctx, cfg))
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.Path, "config", config.DefaultPath, "the configuration `file`")
	f.BoolVar(&s.DryRun, "dry-run", false, "print the commands, and change and send nothing")
	f.StringArrayVar(&s.Inputs, "input", nil, "an input, by its `name`; may be repeated (default: all of them)")
	f.StringArrayVar(&s.Grants, "grant", nil, "let a `principal` write to the tables and read the schema, such as 'aadapp=CLIENT_ID;TENANT'; may be repeated")
	f.BoolVar(&s.Yes, "yes", false, "change what is there already without asking")
	f.BoolVar(&s.ProbeRecord, "probe-record", false, "send the first record of each sample, which stores a row that the agent stores again, and wait until a query sees it")
	durationVar(f, &s.Wait, "wait", 5*time.Minute, "how long to wait for the service to see what was made")
	return cmd
}
