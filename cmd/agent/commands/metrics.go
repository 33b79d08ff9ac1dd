package commands

import (
	"github.com/spf13/cobra"

	"kusto-agent/internal/console"
	"kusto-agent/internal/telemetry"
)

// metricsCommand returns the command metrics, which only has other commands below it.
func metricsCommand() *cobra.Command {
	cmd := group("metrics", "Print the metrics, alert rules or dashboard of this version")
	cmd.Long = "Print what this version of the agent reports to Prometheus: every metric and what it means, alert rules,\n" +
		"or a dashboard for Grafana. It asks no agent; the metrics themselves are at /metrics of telemetry.listen."
	cmd.AddCommand(
		printCommand("reference", "Print every metric and every alert with what they mean, as Markdown", func() ([]byte, error) { return telemetry.Reference(), nil }),
		printCommand("alerts", "Print alert rules for Prometheus", telemetry.Alerts),
		printCommand("dashboard", "Print a dashboard to import into Grafana", telemetry.Dashboard))
	return cmd
}

// printCommand returns a command that prints the document that text returns, such as the alert
// rules of this version.
func printCommand(name, short string, text func() ([]byte, error)) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := console.NewOutput(cmd.OutOrStdout())
			doc, err := text()
			if err == nil {
				_, err = out.Write(doc)
			}
			return out.End(err)
		},
	}
}
