package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// What the model concludes from what is done and from what the agent tells: what may be
// lost, what may come twice, and what is still to come.

// held says whether the agent has a file open.
func (m *model) held(f *modelFile) bool {
	if m.agent == nil {
		return false
	}
	fds := fmt.Sprintf("/proc/%d/fd", m.agent.cmd.Process.Pid)
	entries, _ := os.ReadDir(fds)
	for _, e := range entries {
		name := filepath.Join(fds, e.Name())
		to, _ := os.Readlink(name)
		st, err := os.Stat(name)
		if err == nil && strings.HasPrefix(to, m.logs("")) && st.Sys().(*syscall.Stat_t).Ino == f.ino {
			return true
		}
	}
	return false
}

// reads says whether the agent is known to read a file: it told of it, and holds it.
func (m *model) reads(f *modelFile) bool { return f.listed && m.held(f) }

// leaves: what lies in a file that no pattern matches any more arrives if the agent
// has it open, or else knew it when it was stopped.
func (m *model) leaves(f *modelFile) {
	if f.partial != nil {
		m.fragment(f)
	}
	f.tracked = f.known
	if m.agent != nil && m.reads(f) || m.agent == nil && f.known {
		return
	}
	m.loses(f, "left the patterns unseen")
}

// loses: what is not safe of a file may never arrive.
func (m *model) loses(f *modelFile, why string) {
	for _, r := range f.unsafe() {
		r.mayGo(why)
	}
	if f.partial != nil && f.partial.left {
		m.fragment(f).mayGo(why)
	}
}

// forgets: with the agent goes what it knew of copies, so that each may be read once
// more as a file of its own.
func (m *model) forgets(f *modelFile) {
	if !f.copied {
		return
	}
	for _, r := range m.whole(f) {
		r.double = true
	}
}

// dies is called when the agent has ended, and was not let finish if killed.
func (m *model) dies(killed bool) {
	stranded := killed || !m.spooling // with nothing accepted for patience there is no waiting for what may be
	for _, f := range m.files {
		m.forgets(f)
		if f.outside && !f.tracked {
			m.loses(f, "outside the patterns and not known to the journal")
		}
		f.listed = false
	}
	for _, f := range m.pinned {
		m.forgets(f)
		if stranded {
			m.loses(f, "deleted, and the agent that held it is gone")
		}
	}
	if stranded {
		for _, r := range m.inMemory {
			r.mayGo("truncated, and the agent that had it in memory is gone")
		}
	}
	m.pinned, m.inMemory = nil, nil
}

// observe takes over what the agent tells, which has to answer. It reports whether
// the agent has seen everything and all of it is safe.
func (m *model) observe() (settled bool) {
	held := slices.DeleteFunc(slices.Clone(m.pinned), func(f *modelFile) bool { return !m.held(f) })
	s := m.agent.status()
	settled = true
	for _, f := range m.files {
		seen := false
		for _, e := range s.Files {
			if e.Path != m.logs(f.path) || !f.sizes[e.Size] || e.Size == 0 {
				continue
			}
			f.listed = true
			f.known, f.read = f.known || f.read && e.Read > 0, e.Read > 0 // the journal may be a moment behind
			if f.current[e.Size] && !f.twin {
				f.safe = max(f.safe, e.Safe)
				sent := f.partial != nil && f.partial.left && e.Safe == f.size // its last line as it is
				seen = e.Size == f.size && (e.Safe == f.end() || sent)
			}
		}
		if !seen && !f.outside && f.size > 0 {
			settled, m.unsettled = false, f
		}
	}
	if len(s.Inputs) == 0 || s.Inputs[0].Books.Pending > 0 {
		return false
	}
	m.inMemory = nil // it was read, or it would not be here
	m.pinned = held
	for _, f := range m.files {
		f.copied = f.copied && (!settled || f.outside) // one that nobody looks at is not recognised
	}
	return settled
}

// end is where the last whole record ends.
func (f *modelFile) end() int64 {
	if len(f.lines) == 0 {
		return 0
	}
	return f.lines[len(f.lines)-1].end
}

// left tells which of the records that must arrive are not there yet.
func (m *model) left() []string {
	there := maps.Clone(m.records)
	for row := range m.server.All("Logs", "T", 0) {
		delete(there, string(row.Raw))
	}
	if m.format == "JSON" {
		for _, q := range m.quarantined() {
			delete(there, strings.TrimSuffix(fmt.Sprint(q["data"]), "\n"))
		}
	}
	maps.DeleteFunc(there, func(_ string, r *modelRecord) bool { return !r.must })
	return slices.Sorted(maps.Keys(there))
}
