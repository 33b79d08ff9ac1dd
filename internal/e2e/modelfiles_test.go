package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// What the model knows of the files, and what it concludes from what is done to
// them: which records have to arrive whatever comes, which may, and which may
// arrive twice.

// modelRecord is one line that was written, or the beginning of one that was left
// behind.
type modelRecord struct {
	text   string
	end    int64  // behind its line end, in its file
	must   bool   // it has to arrive
	double bool   // it may arrive in two batches: the documented limits of copies
	broken bool   // it is no record of its format: it arrives in quarantine
	why    string // it may be lost
	place  string // where it was written
}

// mayGo says that a record may be lost from now on, and why.
func (r *modelRecord) mayGo(why string) {
	if r.must {
		r.must, r.why = false, why
	}
}

// modelFile is a file that has a name.
type modelFile struct {
	path    string // below the folder of the logs
	ino     uint64
	outside bool // no pattern matches its name
	lines   []*modelRecord
	size    int64
	partial *partial // behind the last line

	sizes   map[int64]bool // it ever had
	current map[int64]bool // the same of what it holds now
	twin    bool           // its size is one it had before
	safe    int64          // all before is known to be safe
	read    bool           // the agent had read of it at the last look
	known   bool           // and at one before, so that the journal knows it
	listed  bool           // the agent told of it
	copied  bool           // it is a copy that the agent may not have recognised yet
	tracked bool           // outside: the next run finds it
}

// partial is a line that has no end yet.
type partial struct {
	text, rest string
	left       bool // its file was outside the patterns, or was rotated, so it may have been sent as it is
}

// resized notes the size of a file. Where a file of its name had that size before,
// nobody knows which of the two the agent tells of.
func (m *model) resized(f *modelFile, size int64) {
	f.size = size
	key := fmt.Sprint(f.path, " ", size)
	f.twin = m.had[key]
	m.had[key] = true
	if !f.twin {
		f.sizes[size], f.current[size] = true, true
	} else {
		delete(f.sizes, size)
		delete(f.current, size)
	}
}

// unsafe are the records that are not known to be safe.
func (f *modelFile) unsafe() []*modelRecord {
	i := slices.IndexFunc(f.lines, func(r *modelRecord) bool { return r.end > f.safe })
	if i < 0 {
		return nil
	}
	return f.lines[i:]
}

func (m *model) logs(name string) string { return filepath.Join(m.dir, "logs", name) }

// create makes a file that holds nothing yet.
func (m *model) create(name string) *modelFile {
	out, err := os.OpenFile(m.logs(name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	m.must(err)
	defer out.Close()
	f := &modelFile{path: name, outside: !inPatterns(name), sizes: map[int64]bool{}, current: map[int64]bool{}}
	m.resized(f, 0)
	st, err := out.Stat()
	m.must(err)
	f.ino = st.Sys().(*syscall.Stat_t).Ino
	m.files = append(m.files, f)
	return f
}

// inPatterns says whether the input of the model reads a name.
func inPatterns(name string) bool {
	return strings.HasSuffix(name, ".log") || strings.Contains(name, ".log.")
}

// at is the file of a name; nil: there is none.
func (m *model) at(name string) *modelFile {
	i := slices.IndexFunc(m.files, func(f *modelFile) bool { return f.path == name })
	if i < 0 {
		return nil
	}
	return m.files[i]
}

// rename gives a file another name. What has that name is deleted by it.
func (m *model) rename(f *modelFile, to string) {
	over := m.at(to)
	m.must(os.Rename(m.logs(f.path), m.logs(to)))
	if over != nil {
		m.unlinked(over)
	}
	was := f.outside // and where it is not, its last line is sent as it is once there is another file at its path
	f.path, f.outside = to, !inPatterns(to)
	f.sizes, f.current = map[int64]bool{}, map[int64]bool{} // under this name
	m.resized(f, f.size)
	switch {
	case !was && f.outside:
		m.leaves(f)
	case !was && f.partial != nil:
		m.fragment(f)
	case was && !f.outside:
		for _, r := range m.whole(f) {
			r.must, r.why = true, ""
		}
		f.known, f.tracked = false, false
	}
}

// whole are the records of a file and the beginning of one behind them that may have
// been sent.
func (m *model) whole(f *modelFile) []*modelRecord {
	all := slices.Clone(f.lines)
	if f.partial != nil && f.partial.left {
		all = append(all, m.fragment(f))
	}
	return all
}

func (m *model) remove(f *modelFile) {
	m.must(os.Remove(m.logs(f.path)))
	m.unlinked(f)
}

// unlinked: what lies in a deleted file arrives if the agent has it open and lives.
func (m *model) unlinked(f *modelFile) {
	m.files = slices.DeleteFunc(m.files, func(o *modelFile) bool { return o == f })
	if f.partial != nil {
		m.fragment(f)
	}
	if m.agent == nil || !m.reads(f) {
		m.loses(f, "deleted unseen")
		return
	}
	m.pinned = append(m.pinned, f)
}

// empty takes all out of a file. What of it the agent holds in memory is lost only
// with the agent.
func (m *model) empty(f *modelFile, allRead, copied bool) {
	m.must(os.Truncate(m.logs(f.path), 0))
	if allRead && copied {
	} else if allRead {
		m.inMemory = append(m.inMemory, f.unsafe()...)
		if f.partial != nil && f.partial.left {
			m.fragment(f).mayGo("truncated")
		}
	} else {
		m.loses(f, "truncated unread")
	}
	f.lines, f.partial, f.safe, f.copied = nil, nil, 0, false
	clear(f.current)
	m.resized(f, 0)
}

// copyOf makes a copy of a file under another name, in two writes.
func (m *model) copyOf(f *modelFile, name string) *modelFile {
	text, err := os.ReadFile(m.logs(f.path))
	m.must(err)
	g := m.create(name)
	half := m.random.IntN(len(text) + 1)
	m.write(name, string(text[:half]), os.O_APPEND)
	m.write(name, string(text[half:]), os.O_APPEND)
	g.lines, g.safe, g.copied = slices.Clone(f.lines), f.safe, true
	m.resized(g, f.size)
	if f.partial != nil {
		p := *f.partial
		g.partial = &p
		m.fragment(g)
	}
	if g.outside {
		m.loses(g, "copied to where no pattern matches")
	}
	return g
}
