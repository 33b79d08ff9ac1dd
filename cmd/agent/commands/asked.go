package commands

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"kusto-agent/internal/config"
	"kusto-agent/internal/exit"
	"kusto-agent/internal/telemetry"
)

// asked says which running agent to ask over the socket in its state_dir.
type asked struct {
	config, dir string
}

func (a *asked) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&a.config, "config", config.DefaultPath, "the configuration `file` of the agent, which says where its state_dir is")
	f.StringVar(&a.dir, "state-dir", "", "the state_dir of the agent, a `folder`; no configuration is read then")
}

// folder returns the state_dir of the running agent that the command asks: that of --state-dir, or
// else of the configuration. Its error has an exit code.
func (a *asked) folder() (string, error) {
	if a.dir != "" {
		return a.dir, nil
	}
	cfg, err := loadService(a.config)
	if err != nil {
		return "", exit.With(exit.Config, fmt.Errorf("%w\nwithout a configuration: name the state_dir of the agent with --state-dir", err))
	}
	return cfg.StateDir, nil
}

// closedAtOnce ends the error of net/http, which has no name there, for a connection that the other end
// closes before the request is written.
const closedAtOnce = "server closed idle connection"

// askError turns err, an error of a request to the agent whose state_dir is dir, into one with an
// exit code and with what to do: no agent runs, it ended meanwhile, the user may not connect, or there
// is no such input. nil and an error that has an exit code stay as they are.
func askError(err error, dir string) error {
	var ended *exit.Error
	switch {
	case err == nil, errors.As(err, &ended):
		return err
	case errors.Is(err, telemetry.ErrInput):
		return exit.With(exit.Usage, err)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOTDIR):
		return exit.With(exit.Unreachable, fmt.Errorf(
			"no agent answers in %s; start it, or name its state_dir with --state-dir (that of the systemd unit is /var/lib/kusto-agent)", telemetry.Printable(config.Absolute(dir))))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE),
		strings.HasSuffix(err.Error(), closedAtOnce):
		return exit.With(exit.Unreachable, fmt.Errorf("%w; the agent ended before it answered: try again once it runs", err))
	case errors.Is(err, fs.ErrPermission):
		return exit.With(exit.Failed, fmt.Errorf("%w; run it with sudo, or as the agent's user: sudo -u kusto-agent kusto-agent …", err))
	}
	return exit.With(exit.Failed, err)
}
