package tail

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kusto-agent/internal/record"
	"kusto-agent/internal/units"
	"kusto-agent/tail/internal/inode"
)

// The scripts in testdata tell what is done to files and which records come of
// it, one command a line. A word like a1..a9 stands for nine words; quoted
// words may hold anything. README in testdata lists the commands.

// TestScripts runs every script with events and without, and with a real
// batcher behind the tailer.
func TestScripts(t *testing.T) {
	names, err := filepath.Glob("testdata/*.txt")
	must(t, err)
	if len(names) == 0 {
		t.Fatal("no scripts")
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		must(t, err)
		base := strings.TrimSuffix(filepath.Base(name), ".txt")
		for _, v := range variants(string(text)) {
			t.Run(base+"/"+v.name, func(t *testing.T) {
				t.Parallel()
				v.script(newWorld(t)).run(string(text))
			})
		}
	}
}

// variant is a way to run a script.
type variant struct {
	name, watch   string
	batch, killed bool
}

// variants are all ways. One that stops the agent is run with a kill in place of
// each stop too.
func variants(text string) []variant {
	all := []variant{{"auto", "auto", false, false}, {"poll", "poll", false, true}, {"batcher", "auto", true, false}}
	if strings.Contains(text, "\nstop\n") {
		all = append(all, variant{"auto-killed", "auto", false, true}, variant{"poll-stopped", "poll", false, false})
	}
	return all
}

func (v variant) script(w *world) *script {
	w.in().Watch, w.batch = v.watch, v.batch
	s := newScript(w)
	s.killed = v.killed
	return s
}

type script struct {
	*world
	spare   string // a folder that the tailer does not know; empty: it was not needed yet
	writers map[string]*os.File
	killed  bool // each stop is a kill
	line    int
}

func newScript(w *world) *script { return &script{world: w, writers: make(map[string]*os.File)} }

// aside is a folder for what is not meant for the tailer.
func (s *script) aside() string {
	if s.spare == "" {
		s.spare = s.t.TempDir()
	}
	return s.spare
}

var word = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|\S+`)

func (s *script) run(text string) {
	defer func() {
		for _, f := range s.writers {
			f.Close()
		}
	}()
	for line := range strings.Lines(text) {
		s.line++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		words := word.FindAllString(line, -1)
		command := words[0]
		var args []string
		for _, a := range words[1:] {
			args = append(args, s.expand(a)...)
		}
		do, ok := commands[command]
		if !ok {
			s.t.Fatalf("line %d: no command %q", s.line, command)
		}
		if err := do(s, args); err != nil {
			s.t.Fatalf("line %d: %s: %v", s.line, line, err)
		}
		if s.t.Failed() {
			s.t.Fatalf("line %d: %s\nlog:\n%s", s.line, line, s.boxed.text())
		}
	}
}

var run = regexp.MustCompile(`^(.*?)(\d+)\.\.(.*?)(\d+)$`)

// expand unquotes a word, or makes many of one like a1..a9.
func (s *script) expand(word string) []string {
	if word[0] == '"' {
		text, err := strconv.Unquote(word)
		must(s.t, err)
		return []string{text}
	}
	m := run.FindStringSubmatch(word)
	if m == nil || m[1] != m[3] {
		return []string{word}
	}
	from, _ := strconv.Atoi(m[2])
	to, _ := strconv.Atoi(m[4])
	var all []string
	for n := from; n <= to; n++ {
		all = append(all, m[1]+strconv.Itoa(n))
	}
	return all
}

func (s *script) write(flags int, name string, texts ...string) error {
	f, err := os.OpenFile(s.path(name), flags|os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.WriteString(f, strings.Join(texts, ""))
	return err
}

func lined(records []string) (lines []string) {
	for _, r := range records {
		lines = append(lines, r+"\n")
	}
	return lines
}

// two makes a command of a function of two paths.
func two(f func(a, b string) error) func(*script, []string) error {
	return func(s *script, a []string) error { return f(s.path(a[0]), s.path(a[1])) }
}

// pack puts a compressed file in the place of a file.
func (s *script) pack(name, suffix string) error {
	text, err := os.ReadFile(s.path(name))
	if err != nil {
		return err
	}
	tmp := filepath.Join(s.aside(), "packed")
	if err := os.WriteFile(tmp, packedBytes(suffix, text), 0o644); err != nil {
		return err
	}
	if err := os.Rename(tmp, s.path(name+suffix)); err != nil {
		return err
	}
	return os.Remove(s.path(name))
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}

// fallocate makes a command of what fallocate(2) can do to a range of a file.
func fallocate(mode uint32) func(*script, []string) error {
	return func(s *script, a []string) error {
		f, err := os.OpenFile(s.path(a[0]), os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		var span [2]int64
		for i := range span {
			if span[i], err = strconv.ParseInt(a[i+1], 10, 64); err != nil {
				return err
			}
		}
		err = unix.Fallocate(int(f.Fd()), mode, span[0], span[1])
		if errors.Is(err, unix.EOPNOTSUPP) {
			s.t.Skip("the file system has no such thing")
		}
		return err
	}
}

var commands = map[string]func(s *script, a []string) error{
	// What is done to files.
	"append":  func(s *script, a []string) error { return s.write(os.O_APPEND, a[0], lined(a[1:])...) },
	"partial": func(s *script, a []string) error { return s.write(os.O_APPEND, a[0], a[1:]...) },
	"write":   func(s *script, a []string) error { return s.write(os.O_TRUNC, a[0], lined(a[1:])...) },
	"refill":  func(s *script, a []string) error { return s.write(os.O_TRUNC, a[0], a[1:]...) },
	"truncate": func(s *script, a []string) error {
		n, err := strconv.ParseInt(a[1], 10, 64)
		if err != nil {
			return err
		}
		return os.Truncate(s.path(a[0]), n)
	},
	"pad": func(s *script, a []string) error { // FILE N: so many NULs are written at its end
		n, err := strconv.Atoi(a[1])
		if err != nil {
			return err
		}
		return s.write(os.O_APPEND, a[0], strings.Repeat("\x00", n))
	},
	"fill": func(s *script, a []string) error { // FILE N CHARACTER: a line of so many bytes is appended
		n, err := strconv.Atoi(a[1])
		if err != nil {
			return err
		}
		return s.write(os.O_APPEND, a[0], strings.Repeat(a[2], n-1)+"\n")
	},
	"dribble": func(s *script, a []string) error { // FILE RECORD…: each byte is a write of its own
		f, err := os.OpenFile(s.path(a[0]), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			return err
		}
		defer f.Close()
		for _, b := range []byte(strings.Join(lined(a[1:]), "")) {
			if _, err := f.Write([]byte{b}); err != nil {
				return err
			}
		}
		return nil
	},
	"poke": func(s *script, a []string) error { // FILE OFFSET TEXT: written in place
		f, err := os.OpenFile(s.path(a[0]), os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		at, err := strconv.ParseInt(a[1], 10, 64)
		if err == nil {
			_, err = f.WriteAt([]byte(a[2]), at)
		}
		return err
	},
	"punch":    fallocate(unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE), // FILE OFFSET LENGTH
	"collapse": fallocate(unix.FALLOC_FL_COLLAPSE_RANGE),
	"lie": func(s *script, a []string) error { // N: files tell that they have at most N bytes; 0: the truth
		n, err := strconv.ParseInt(a[0], 10, 64)
		s.lie.Store(n)
		return err
	},
	"gzip": func(s *script, a []string) error { return s.pack(a[0], ".gz") }, // as the commands do
	"zstd": func(s *script, a []string) error { return s.pack(a[0], ".zst") },
	"keep-time-gzip": func(s *script, a []string) error { // FILE: as gzip, whose file has the time of what is in it
		st, err := os.Stat(s.path(a[0]))
		if err != nil {
			return err
		}
		if err := s.pack(a[0], ".gz"); err != nil {
			return err
		}
		return os.Chtimes(s.path(a[0]+".gz"), st.ModTime(), st.ModTime())
	},
	"keep-gzip": func(s *script, a []string) error { // as gzip -c A >>A.gz
		text, err := os.ReadFile(s.path(a[0]))
		if err != nil {
			return err
		}
		return s.write(os.O_APPEND, a[0]+".gz", string(packedBytes(".gz", text)))
	},
	"cut": func(s *script, a []string) error { // FILE N: N bytes are taken off its end
		st, err := os.Stat(s.path(a[0]))
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(a[1], 10, 64)
		if err != nil {
			return err
		}
		return os.Truncate(s.path(a[0]), st.Size()-n)
	},
	"mv":      two(os.Rename),
	"cp":      two(copyFile),
	"ln":      two(os.Link),
	"symlink": func(s *script, a []string) error { return os.Symlink(a[0], s.path(a[1])) },
	"mkdir":   func(s *script, a []string) error { return os.MkdirAll(s.path(a[0]), 0o755) },
	"mkfifo":  func(s *script, a []string) error { return unix.Mkfifo(s.path(a[0]), 0o644) },
	"rm":      func(s *script, a []string) error { return os.RemoveAll(s.path(a[0])) },
	"age": func(s *script, a []string) error { // FILE DURATION: it was last changed so long ago
		d, err := time.ParseDuration(a[1])
		at := time.Now().Add(-d)
		if err != nil {
			return err
		}
		return os.Chtimes(s.path(a[0]), at, at)
	},
	"tick": func(s *script, a []string) error { // [DURATION]: waits until the clock of the file system, which may be behind, has passed this moment, by so much
		var by time.Duration
		if len(a) > 0 {
			var err error
			if by, err = time.ParseDuration(a[0]); err != nil {
				return err
			}
		}
		for now := time.Now().Add(by).UnixNano(); ; time.Sleep(time.Millisecond / 2) {
			f, err := os.CreateTemp(s.aside(), "")
			if err != nil {
				return err
			}
			st, err := inode.In(f)
			f.Close()
			if err != nil || st.Birth > now {
				return err
			}
		}
	},
	"grab": func(s *script, a []string) (err error) { // NAME FILE: a writer opens the file and keeps it
		s.writers[a[0]], err = os.OpenFile(s.path(a[1]), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
		return err
	},
	"say": func(s *script, a []string) error { // NAME RECORD…: that writer appends
		_, err := io.WriteString(s.writers[a[0]], strings.Join(lined(a[1:]), ""))
		return err
	},

	// How the agent is set up; before start.
	"set": func(s *script, a []string) error { return s.set(a[0], a[1:]) },
	"input": func(s *script, a []string) error {
		watch := s.in().Watch
		s.addInput(a[0], a[1:]...).Watch = watch
		return nil
	},

	"only": func(s *script, a []string) error { // NAME…: the other inputs are taken away
		s.inputs = slices.DeleteFunc(s.inputs, func(in Input) bool { return !slices.Contains(a, in.Name) })
		return nil
	},
	"reload": func(s *script, a []string) error { s.reload(); return nil },

	// What is done to the agent.
	"start": func(s *script, a []string) error { s.start(); return nil },
	"stop": func(s *script, a []string) error { // a script that has it is run with a kill in its place too
		if s.look(); s.killed {
			s.kill()
		} else {
			s.shut()
		}
		return nil
	},
	"kill":     func(s *script, a []string) error { s.look(); s.kill(); return nil },
	"look":     func(s *script, a []string) error { s.look(); return nil },
	"unlooked": func(s *script, a []string) error { s.unlooked = true; return nil },
	"looked":   func(s *script, a []string) error { s.unlooked = false; return nil },
	"full":     func(s *script, a []string) error { s.taker.set(func() { s.taker.full = true }); return nil },
	"room":     func(s *script, a []string) error { s.taker.set(func() { s.taker.full = false }); return nil },
	"hold":     func(s *script, a []string) error { s.taker.set(func() { s.taker.hold = true }); return nil },
	"release":  func(s *script, a []string) error { s.taker.set(func() { s.taker.hold = false }); return nil },
	"deaf":     func(s *script, a []string) error { s.taker.set(func() { s.taker.deaf = true }); return nil },
	"hear":     func(s *script, a []string) error { s.taker.set(func() { s.taker.deaf = false }); return nil },
	"accept": func(s *script, a []string) error { // N: the N-th of those whose end was not heard of, from 1
		n, err := strconv.Atoi(a[0])
		s.taker.acceptOnly(n - 1)
		return err
	},

	// What must come of it.
	"expect":    func(s *script, a []string) error { s.expect("in", a...); return nil },
	"expect-of": func(s *script, a []string) error { s.expect(a[0], a[1:]...); return nil },
	"released": func(s *script, a []string) error { // no file that is gone is held any more
		s.look()
		s.await("files to be let go", func() bool {
			return !slices.ContainsFunc(s.tailer.all(), func(r *reader) bool { return r.life.IsGone() })
		})
		return nil
	},
	"decided": func(s *script, a []string) error { // no compressed file is left to be looked through
		s.decided()
		return nil
	},
	"files": func(s *script, a []string) error { // NAME…: exactly these are being read
		s.look()
		var got []string
		for _, f := range s.tailer.Files() {
			name, _ := filepath.Rel(s.dir, f.Path)
			got = append(got, name)
		}
		slices.Sort(got)
		slices.Sort(a)
		if !slices.Equal(got, a) {
			return fmt.Errorf("files are %q", got)
		}
		return nil
	},
	"remembered": func(s *script, a []string) error { // N: so many generations, once it is so
		n := -1
		late := time.Now().Add(patience)
		for fmt.Sprint(n) != a[0] && time.Now().Before(late) {
			s.look()
			s.tailer.mu.Lock()
			n = s.tailer.inputs()[0].known.Len()
			s.tailer.mu.Unlock()
		}
		if fmt.Sprint(n) != a[0] {
			return fmt.Errorf("it is %d", n)
		}
		return nil
	},
	"generation": func(s *script, a []string) error { // FILE N: the one that is being read
		for _, f := range s.tailer.Files() {
			if f.Path == s.path(a[0]) && strconv.FormatUint(uint64(f.File.Generation), 10) != a[1] {
				return fmt.Errorf("it is generation %d", f.File.Generation)
			}
		}
		return nil
	},
	"safe": func(s *script, a []string) error { // FILE N: so far it is safe, once it is
		n, _ := strconv.ParseInt(a[1], 10, 64)
		s.await("position", func() bool {
			return slices.ContainsFunc(s.tailer.all(), func(r *reader) bool { return r.path() == s.path(a[0]) && r.k.safe == n })
		})
		return nil
	},
	"counter": func(s *script, a []string) error {
		if got := s.boxed.counter(a[0]); fmt.Sprint(got) != a[1] {
			return fmt.Errorf("it is %d", got)
		}
		return nil
	},
	"scan": func(s *script, a []string) error { // all names are looked at once
		s.tailer.mu.Lock()
		next := s.tailer.scans.no + 1
		s.tailer.mu.Unlock()
		s.tailer.rescanSoon()
		s.await("a scan", func() bool { return s.tailer.scans.done.Load() >= next })
		return nil
	},
	"told": func(s *script, a []string) error { // WORD…: it is logged sooner or later
		for s.boxed.logged(a...) == 0 && !s.t.Failed() {
			s.look()
		}
		return nil
	},
	"logged": func(s *script, a []string) error { // TIMES WORD…
		if got := s.boxed.logged(a[1:]...); fmt.Sprint(got) != a[0] {
			return fmt.Errorf("it is logged %d times:\n%s", got, s.boxed.text())
		}
		return nil
	},
	"refused": func(s *script, a []string) error { // REASON LENGTH OFFSET of the next one
		s.look()
		s.boxed.mu.Lock()
		defer s.boxed.mu.Unlock()
		if len(s.boxed.refused) == 0 {
			return fmt.Errorf("nothing was refused")
		}
		r := s.boxed.refused[0]
		s.boxed.refused = s.boxed.refused[1:]
		if got := fmt.Sprintf("%s %d %d", r.Reason, r.Length, r.Offset); got != strings.Join(a, " ") {
			return fmt.Errorf("it is %s: %s", got, r.Message)
		}
		return nil
	},
}

// set sets a key of the input at hand.
func (s *script) set(key string, values []string) error {
	in := s.in()
	one := values[0]
	duration := func(d *units.Duration) error { return d.UnmarshalText([]byte(one)) }
	switch key {
	case "paths":
		in.Paths = nil
		for _, p := range values {
			in.Paths = append(in.Paths, s.path(p))
		}
	case "exclude":
		in.Exclude = values
	case "table":
		in.Table = one
	case "compressed":
		in.Compressed = one
	case "start_at":
		in.StartAt = one
	case "encoding":
		in.Encoding = one
	case "header":
		in.Header = one
	case "validate":
		in.Validate = one
	case "format":
		in.Format = record.Format(one)
	case "ignore_older":
		return duration(&in.IgnoreOlder)
	case "rotate_quiet":
		return duration(&in.RotateQuiet)
	case "partial_line_wait":
		return duration(&in.PartialLineWait)
	case "forget_after":
		return duration(&in.ForgetAfter)
	case "max_record_size":
		return in.MaxRecordSize.UnmarshalText([]byte(one))
	case "max_pinned_deleted":
		return in.MaxPinnedDeleted.UnmarshalText([]byte(one))
	case "max_records":
		n, err := strconv.Atoi(one)
		in.MaxRecords = n
		return err
	case "max_size":
		n, err := strconv.Atoi(one)
		s.block = n
		return err
	case "open_files":
		n, err := strconv.Atoi(one)
		s.open = n
		return err
	default:
		return fmt.Errorf("no key %q", key)
	}
	return nil
}
