// Package systemd tells the service manager what the agent does, in the order in which it
// does it, and never waits for a manager that does not read.
package systemd

import (
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"kusto-agent/internal/async"
)

// Notifier sends states to the service manager. A nil one sends nothing.
type Notifier struct {
	log  *slog.Logger
	send func(state string) error

	mu     sync.Mutex
	states []string  // that were not sent yet
	more   sync.Cond // of mu: there are some, or closed
	closed bool
	ended  <-chan struct{} // closed when nothing more is sent
}

// NewNotifier returns a notifier for the service manager that started this process; nil, which
// sends nothing, if there is none. The caller closes it.
func NewNotifier(log *slog.Logger) *Notifier {
	if os.Getenv("NOTIFY_SOCKET") == "" {
		return nil
	}
	return startNotifier(log, func(state string) error {
		_, err := daemon.SdNotify(false, state)
		return err
	})
}

func startNotifier(log *slog.Logger, send func(string) error) *Notifier {
	n := &Notifier{log: log, send: send}
	n.more.L = &n.mu
	n.ended = async.Start(n.pass)
	return n
}

// Tell queues a state in the form of sd_notify, such as "READY=1", and returns at once. It replaces
// a state with the same name that was not sent yet, so that the queue stays short.
func (n *Notifier) Tell(state string) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	kind, _, _ := strings.Cut(state, "=")
	n.states = append(slices.DeleteFunc(n.states, func(old string) bool { return strings.HasPrefix(old, kind+"=") }), state)
	n.more.Signal()
}

// next waits for a state and takes it from the queue; "" when the notifier is closed and the queue is
// empty.
func (n *Notifier) next() (state string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for len(n.states) == 0 && !n.closed {
		n.more.Wait()
	}
	if len(n.states) > 0 {
		state, n.states = n.states[0], n.states[1:]
	}
	return state
}

// pass sends the queued states one after the other, in a goroutine of its own, until the notifier
// is closed and the queue is empty. A state that cannot be sent is logged and left out.
func (n *Notifier) pass() {
	for state := n.next(); state != ""; state = n.next() {
		if err := n.send(state); err != nil {
			n.log.Warn("systemd notification failed, the agent continues", "state", state, "err", err,
				"fix", "nothing, if systemd was restarted; else see that NOTIFY_SOCKET is that of the service manager")
		}
	}
}

// Close ends the notifier after the queued states are sent, but waits for that at most the given
// time: a service manager that does not read its socket must not hold up the agent.
func (n *Notifier) Close(wait time.Duration) {
	if n == nil {
		return
	}
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.more.Signal()
	select {
	case <-n.ended:
	case <-time.After(wait):
	}
}
