// Command agent is kusto-agent: it ships records from files to Azure Data
// Explorer by streaming ingestion, and knows of each what became of it.
package main

import (
	"os"

	"kusto-agent/cmd/agent/commands"
)

//go:generate sh -c "go run . metrics reference >../../docs/metrics.md"
//go:generate sh -c "go run . metrics alerts >../../docs/alerts.yml"
//go:generate sh -c "go run . config reference >../../docs/configuration.md"
//go:generate sh -c "go run . man --markdown >../../docs/commands.md"
//go:generate sh -c "go run . metrics dashboard >../../docs/dashboard.json"

func main() { os.Exit(commands.Execute(os.Args[1:])) }
