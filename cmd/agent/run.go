package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"kusto-agent/internal/agent"
	"kusto-agent/internal/config"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/hangup"
	"kusto-agent/internal/telemetry"
)

func runCommand() *cobra.Command {
	var path string
	var once bool
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Ship records until stopped",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return runAgent(path, once) },
	}
	cmd.Flags().StringVar(&path, "config", config.DefaultPath, "the configuration `file`")
	cmd.Flags().BoolVar(&once, "once", false, "ship what the files hold now, wait until it is accepted, and exit")
	return cmd
}

// lastLines is how long the end waits for the reader of the log.
const lastLines = time.Second

// pace is set by tests that cannot wait as long as the agent does between two looks.
var pace agent.Options

// runAgent runs the agent until it ends. The log goes through a queue, so that a reader of stderr
// that stalls or goes away does not stop the agent.
func runAgent(path string, once bool) error {
	// Go ends a program that writes to a closed stderr, unless it asks for SIGPIPE.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	hangups := hangup.Caught()
	cfg, err := loadConfig(path)
	if err != nil {
		return lastWords(telemetry.NewLogQueue(os.Stderr), err)
	}
	agent.BoundHeap(cfg, 0)
	o := pace
	o.Config, o.Path, o.Hangups, o.Once = cfg, path, hangups, once
	o.Level = new(slog.LevelVar)
	o.Level.Set(telemetry.Level(cfg.Telemetry.Log))
	o.Log, o.Queue = telemetry.NewQueuedLogger(cfg.Telemetry.Log, os.Stderr, o.Level)
	a, err := agent.New(o)
	if err == nil {
		err = a.Serve(context.Background())
	}
	return lastWords(o.Queue, err)
}

// lastWords logs why the agent ends, and returns the error that has only the exit code.
func lastWords(queue *telemetry.LogQueue, err error) error {
	var ended *exit.Error
	if errors.As(err, &ended) && ended.Err != nil {
		fmt.Fprintln(queue, exit.Words(ended.Err))
		err = exit.Silently(ended.Code)
	}
	queue.Close(lastLines)
	return err
}

// loadConfig reads the configuration; a mistake in it has the exit code 78.
func loadConfig(path string) (*config.Config, error) {
	cfg, err := config.Load(path, os.LookupEnv, config.Options{})
	if err != nil {
		return nil, exit.With(exit.Config, err)
	}
	return cfg, nil
}
