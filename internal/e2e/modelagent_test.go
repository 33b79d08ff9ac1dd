package e2e

import (
	"context"
	"kusto-agent/emulator"
	"os"
	"strconv"
	"syscall"
	"time"
)

// The things the model does to the agent and to its endpoint.

// look has the model know what the agent knows now, as a rule.
func (m *model) look(*modelFile) {
	if m.agent != nil && !m.paused && m.random.IntN(4) > 0 {
		m.observe()
	}
}

// perhapsRead waits, in a part of the cases, until all of a file was read, or is safe.
func (m *model) perhapsRead(f *modelFile) bool {
	canRead := m.agent != nil && !m.paused && (m.outage == "" || m.spooling) && f.partial == nil
	if !canRead || m.random.IntN(3) == 0 {
		m.look(f)
		return false
	}
	for f.twin || f.size == 0 {
		m.put(f, 1)
	}
	safe := !m.clean || m.random.IntN(2) == 0
	m.note("wait until %s is read to %d bytes (safe: %v)", f.path, f.size, safe)
	m.until("file is read", func() bool {
		for _, e := range m.agent.files() {
			if e.Path == m.logs(f.path) && e.Size == f.size && e.Read == f.size && (!safe || e.Safe == f.size) {
				return true
			}
		}
		return false
	})
	m.observe()
	return true
}

// breathe gives the agent a moment, or all the time it needs.
func (m *model) breathe() {
	if m.agent == nil || m.paused {
		return
	}
	if m.outage == "" && m.random.IntN(4) == 0 {
		m.settle()
		return
	}
	ctx, cancel := context.WithTimeout(m.t.Context(), time.Duration(m.random.IntN(60))*time.Millisecond)
	defer cancel()
	_ = m.server.WaitRequests(ctx, m.server.Totals().Requests+1+m.random.IntN(3))
	m.observe()
	m.note("breathe")
}

// settle waits until the agent has seen all and all is safe.
func (m *model) settle() {
	for _, f := range m.files {
		for f.twin && !f.outside {
			m.put(f, 1)
		}
	}
	m.note("wait until all is safe")
	m.until("all is safe", m.observe)
}

// start runs the agent.
func (m *model) start() {
	m.agent = m.run(m.config)
	m.runs = append(m.runs, m.agent)
	if m.group != "" {
		m.must(os.WriteFile(m.group, []byte(strconv.Itoa(m.agent.cmd.Process.Pid)), 0o644))
	}
	m.agent.await(1, "agent is running")
	m.note("agent is running")
}

// restart ends the agent, and starts it again, at once or later.
func (m *model) restart(kindly bool) {
	if m.agent == nil {
		m.start()
		return
	}
	m.look(nil)
	if kindly {
		m.goOn()
		m.note("SIGTERM")
		m.agent.stop()
	} else {
		m.note("SIGKILL")
		m.agent.kill()
	}
	m.paused = false
	m.clean = kindly && m.spooling
	m.agent = nil
	m.dies(!kindly)
	if m.random.IntN(2) == 0 {
		m.start()
	}
}

func (m *model) pauseOrGoOn() {
	switch {
	case m.agent == nil:
	case m.paused:
		m.goOn()
	default:
		m.observe()
		m.note("SIGSTOP")
		m.agent.signal(syscall.SIGSTOP)
		m.paused = true
	}
}

func (m *model) goOn() {
	if m.paused {
		m.note("SIGCONT")
		m.agent.signal(syscall.SIGCONT)
		m.paused = false
	}
}

// turnServer makes the endpoint fail in one way or another, or be well again.
func (m *model) turnServer() {
	if m.outage != "" {
		m.repair()
		return
	}
	kinds := []string{"refused", "503", "reset after commit"}
	if m.hangs {
		kinds = append(kinds, "hang", "hang after commit")
	}
	m.outage = kinds[m.random.IntN(len(kinds))]
	m.note("endpoint: %s", m.outage)
	switch m.outage {
	case "refused":
		m.gate.refuse()
	case "503":
		m.fault = m.server.Fail(emulator.Fault{Status: 503})
	case "reset after commit":
		m.fault = m.server.Fail(emulator.Fault{Reset: true, When: emulator.AfterCommit, Times: 2})
		m.outage = "" // it accepts what comes next
	case "hang":
		m.fault = m.server.Fail(emulator.Fault{Hang: true})
	case "hang after commit":
		m.fault = m.server.Fail(emulator.Fault{Hang: true, When: emulator.AfterCommit})
	}
}

func (m *model) repair() {
	if m.outage == "refused" {
		m.gate.open()
	}
	if m.fault != nil {
		m.fault.Remove()
		m.fault = nil
	}
	m.outage = ""
	m.note("endpoint is well")
}
