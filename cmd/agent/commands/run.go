package commands

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

// runCommand returns the command run, with its help and its flags.
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

// Pace is set by tests alone, which cannot wait as long as the agent does between two looks.
var Pace agent.Options

// runAgent runs the agent with the configuration at path until it ends; once is the flag --once.
// The log goes through a queue, so that a reader of stderr that stalls or goes away does not stop
// the agent. The error is logged already and has only the exit code.
func runAgent(path string, once bool) error {
	// Without this Go ends the program when it writes to a stderr whose reader is gone.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	hangups := hangup.Caught()
	cfg, err := loadConfig(path)
	if err != nil {
		return lastWords(telemetry.NewLogQueue(os.Stderr), err)
	}
	agent.BoundHeap(cfg, 0)
	o := Pace
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

// lastWords writes the message of err, with which the agent ends, to the log, and closes the log's
// queue. It returns an error that has only the exit code of err, so that the message is not printed
// twice; nil if err is nil.
func lastWords(queue *telemetry.LogQueue, err error) error {
	var ended *exit.Error
	if errors.As(err, &ended) && ended.Err != nil {
		fmt.Fprintln(queue, exit.Words(ended.Err))
		err = exit.Silently(ended.Code)
	}
	queue.Close(lastLines)
	return err
}

// loadConfig reads the configuration at path to run an agent, or to check it. Its error has the exit
// code for a wrong configuration, 78.
func loadConfig(path string) (*config.Config, error) { return loadIn(path, os.LookupEnv) }

// loadService is loadConfig to look at the agent that runs with the file: see config.ServiceEnv.
func loadService(path string) (*config.Config, error) { return loadIn(path, config.ServiceEnv(path)) }

func loadIn(path string, env config.Env) (*config.Config, error) {
	cfg, err := config.Load(path, env, config.Options{})
	return cfg, exit.Default(exit.Config, err)
}
