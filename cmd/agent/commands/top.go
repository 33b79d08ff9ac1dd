package commands

import (
	"os"
	"time"

	"github.com/spf13/cobra"

	"kusto-agent/internal/console"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/top"
)

// topCommand returns the command top, with its help and its flags.
func topCommand() *cobra.Command {
	var from watched
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch the running agent live in a terminal",
		Long: "Watch the running agent live in a terminal: the way of the records with its rates, and below it routes, files\n" +
			"or errors, which are sorted (s, r), filtered (/) and opened (enter). p pauses, q quits. It asks for the same\n" +
			"document as status, and changes nothing. For scripts: kusto-agent status --json.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			const least = 100 * time.Millisecond
			switch {
			case every < least:
				return exit.Usagef("--interval %v is too short; want at least %v", every, least)
			case !console.IsTerminal(os.Stdin) || !console.IsTerminal(os.Stdout):
				return exit.Usagef("top needs a terminal; for scripts: kusto-agent status --json")
			}
			first, err := from.fetch(c.Context())
			if err != nil {
				return err
			}
			return top.Run(c.Context(), top.Options{Fetch: from.fetch, First: first, Interval: every})
		},
	}
	from.flags(cmd)
	durationVar(cmd.Flags(), &every, "interval", 2*time.Second, "the `time` from an answer to the next question")
	return cmd
}
