package e2e

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kusto-agent/emulator"
	"kusto-agent/internal/audit"
)

// storm is an application that writes numbered records and rotates its file, an agent, and
// a service. In each round the agent is started and something happens to it. Each row
// bears the place that its record was read from, so that after each round the table is
// compared with the audit, record by record.
type storm struct {
	*site
	conf    string
	random  *rand.Rand
	seq     int // records written so far
	table   map[int][]origin
	ids     map[string]int   // of the file of each id that rows bear: its number
	log     map[origin]int   // how often the log said of a record that it is sent again
	vague   func(n int) bool // of a record: the log named it in words that give no range
	inexact bool             // the journal may know less than was sent
	// cuts says that the journal loses its end in each round. What it has lost is sent again,
	// and only then can the audit name it. The log names files and offsets, and no ranges
	// that could be counted.
	cuts   bool
	rounds int
	ends   int // rounds in which the agent ended by what happened to it
	unkept int // rounds at whose end the log says that the state was not saved
}

// origin is the place of a record.
type origin struct {
	file string // id and generation
	at   int64
}

const (
	perRound  = 120 // records that are written in a round: a few batches of them
	perStormy = 60  // records of a file, before it is rotated
	stormLine = 500 // bytes of a record
	perSite   = 20  // rounds that one folder of state lasts
)

const stormSchema = `{"databases": {"Logs": {"tables": {"T": {"columns": "n:long, file:string, generation:long, offset:long",
	"mappings": [{"name": "m", "kind": "Json", "columns": [{"column": "n", "path": "$.n"}, {"column": "file", "path": "$.file"},
		{"column": "generation", "path": "$.generation"}, {"column": "offset", "path": "$.offset"}]}]}}}}}`

// newStorm has the order of what happens follow from a seed. In every other one requests
// are slow to answer once their rows are stored: then a kill does the most harm.
func newStorm(t *testing.T, seed int) *storm {
	m := &storm{random: rand.New(rand.NewPCG(uint64(seed), 17)), ids: map[string]int{}, log: map[origin]int{}, vague: func(int) bool { return false }}
	m.site = newSite(t, emulator.Options{KeepRequests: 1 << 10, Schema: schemaOf(t, stormSchema)})
	if seed%2 == 1 {
		m.server.Fail(emulator.Fault{When: emulator.AfterCommit, Delay: 5 * time.Millisecond})
	}
	m.conf = open + hasty + "batch: {max_size: 16KiB, max_wait: 20ms}\nspool: {min_free: 0}\njournal: {max_size: 8GiB}\n" +
		`inputs: [{paths: ["${DIR}/logs/app.json*"], format: JSON, table: T, mapping: m, fields: {file: "{file}", generation: "{generation}", offset: "{offset}"}}]`
	return m
}

// start starts the agent, which may end at any moment.
func (m *storm) start() *process {
	m.t.Helper()
	m.rounds++
	m.site.write("agent.yaml", m.conf)
	p := m.launch("run", "--config", m.path("agent.yaml"))
	m.agent = p
	return p
}

// stormFile is where the n'th file is once it is rotated.
func stormFile(n int) string { return fmt.Sprintf("logs/app.json.%04d", n) }

// write is the application for a while.
func (m *storm) write(records int) {
	for range records {
		line := fmt.Sprintf(`{"n":%8d,"note":"%s `, m.seq, recordMark)
		m.append("logs/app.json", line+strings.Repeat("x", stormLine-len(line)-3)+"\"}\n")
		if m.seq++; m.seq%perStormy == 0 {
			m.rename("logs/app.json", stormFile(m.seq/perStormy-1))
		}
	}
}

// play is a round: the application writes and rotates before the agent is started, while
// it runs, and also after it has ended. It reports whether that was by itself.
func (m *storm) play(p *process, text string) (ended bool) {
	m.t.Helper()
	due := m.server.RowCount("Logs", "T") + m.seq - len(m.table) + perRound/2
	ended = m.settled(p, "agent is running", 0)
	m.write(perRound / 2)
	return ended || m.settled(p, text, due)
}

// settled waits until the agent has ended, or its log has a text, or the table has as many
// rows; it reports whether the agent has ended.
func (m *storm) settled(p *process, text string, rows int) bool {
	m.t.Helper()
	ctx, cancel := m.waiting()
	defer cancel()
	stored := make(chan struct{})
	if rows > 0 {
		// Started here, ended by the wait or the end of this one, awaited by nobody.
		go func() {
			if m.server.WaitRows(ctx, "Logs", "T", rows) == nil {
				close(stored)
			}
		}()
	}
	for {
		_, more := p.log.seen()
		if text != "" && strings.Contains(p.log.text(), text) {
			return false
		}
		select {
		case <-more:
		case <-stored:
			return false
		case <-p.ended:
			return true
		case <-ctx.Done():
			<-p.ended // it is what ended the wait, or the test is over
			return true
		}
	}
}

// note takes over what the log of an ended agent names, and expects that it lost nothing.
func (m *storm) note(p *process) {
	m.t.Helper()
	for _, word := range []string{"truncated or replaced", "another body", "source is gone", "rewritten"} {
		if strings.Contains(p.log.text(), word) {
			m.t.Errorf("the log has %q:\n%s", word, p.log.text())
		}
	}
	for _, s := range p.sendsAgain() {
		for at := s.start; at < s.end; at += stormLine {
			m.log[origin{s.id + "/0", at}]++
		}
	}
}

// look reads the table.
func (m *storm) look() {
	m.t.Helper()
	m.table = map[int][]origin{}
	for row := range m.server.All("Logs", "T", 0) {
		var r struct {
			N                        int
			File, Generation, Offset json.RawMessage
		}
		m.must(json.Unmarshal(row.Raw, &r))
		text := func(b json.RawMessage) string { return strings.Trim(string(b), `"`) }
		o := origin{file: text(r.File) + "/" + text(r.Generation)}
		var err error
		if o.at, err = strconv.ParseInt(text(r.Offset), 10, 64); err != nil || r.N >= m.seq || o.at != int64(r.N%perStormy*stormLine) {
			m.t.Fatalf("a row that was never written: %.200q", row.Raw)
		}
		m.table[r.N] = append(m.table[r.N], o)
		if old, known := m.ids[o.file]; known && old != r.N/perStormy {
			m.t.Fatalf("two files have the id %s", o.file)
		}
		m.ids[o.file] = r.N / perStormy
	}
}

// verdict is what an audit says of each record.
type verdict struct {
	accepted, doubled, unsure map[origin]bool
	ended                     map[string]int // records of a file that have ended as accepted
}

func (m *storm) verdict(r *audit.Report) verdict {
	v := verdict{map[origin]bool{}, map[origin]bool{}, map[origin]bool{}, map[string]int{}}
	for i := range r.Files {
		f := &r.Files[i]
		name := fmt.Sprintf("%s/%d", f.File, f.Generation)
		fill := func(set map[origin]bool, ranges []audit.Span) {
			for _, s := range ranges {
				for at := (s.Start + stormLine - 1) / stormLine * stormLine; at < s.End; at += stormLine {
					set[origin{name, at}] = true
				}
			}
		}
		for _, route := range f.Routes {
			fill(v.accepted, route.Accepted.Ranges)
		}
		for _, x := range f.Troubles {
			switch x.Problem {
			case audit.Doubled:
				fill(v.doubled, x.Ranges)
			case audit.Unsure:
				fill(v.unsure, x.Ranges)
			default:
				m.t.Errorf("round %d: the audit finds %s of %v in %s", m.rounds, x.Problem, x.Ranges, f.Path)
			}
		}
	}
	for o := range v.accepted {
		v.ended[o.file]++
	}
	return v
}

// judge compares the table with an audit of what the agent has left in its folders: a
// record that it counts as accepted is stored, one that it says was accepted twice is
// stored twice, and one that is stored twice is among those that it names.
func (m *storm) judge(last bool) (r *audit.Report, v verdict) {
	m.t.Helper()
	m.look() // before the audit: what is stored from now on may be named from now on
	dir := m.path("state")
	if strings.Contains(m.conf, "${DIR}/disk/state") {
		dir = m.path("disk/state")
	}
	r, err := audit.Read(audit.Options{State: dir, Spool: dir + "/spool"})
	m.must(err)
	v = m.verdict(r)
	number := func(o origin) int {
		file, known := m.ids[o.file]
		if !known {
			m.t.Errorf("round %d: the audit counts %v as accepted, and no row is of that file", m.rounds, o)
			return -1
		}
		return file*perStormy + int(o.at/stormLine)
	}
	for o := range v.accepted {
		if n := number(o); n >= 0 && len(m.table[n]) == 0 {
			m.t.Errorf("round %d: the audit counts record %d as accepted, and it is not stored", m.rounds, n)
		}
	}
	for o := range v.doubled {
		if n := number(o); n >= 0 && len(m.table[n]) < 2 {
			m.t.Errorf("round %d: the audit counts record %d as accepted twice, and it is stored once", m.rounds, n)
		}
	}
	for n, rows := range m.table {
		named := slices.ContainsFunc(rows, func(o origin) bool { return v.doubled[o] || v.unsure[o] })
		// What a cut took from the journal is not accepted by it, and is sent again.
		due := m.cuts && !last && !slices.ContainsFunc(rows, func(o origin) bool { return v.accepted[o] })
		if len(rows) > 1 && !named && !m.vague(n) && !due {
			m.t.Errorf("round %d: record %d is stored %d times, as %v, and the audit does not name it", m.rounds, n, len(rows), rows)
		}
	}
	return r, v
}

// removeOld removes rotated files, but for the last few, of which the audit counts all as
// accepted.
func (m *storm) removeOld(v verdict) {
	for name, n := range m.ids {
		if v.ended[name] == perStormy && n < m.seq/perStormy-4 {
			_ = os.Remove(m.path(stormFile(n))) // an earlier round may have done it
		}
	}
}

// sums are what storms came to.
type sums struct{ rounds, ends, records, doubles, extra, again, unkept int }

func (s *sums) String() string {
	return fmt.Sprintf("%d rounds, in %d of them the agent ended by what happened; %d records, %d of them stored more than once, %d rows too many; %d ranges of records named by logs; %d stops without a saved state",
		s.rounds, s.ends, s.records, s.doubles, s.extra, s.again, s.unkept)
}

// end runs the agent once more, in peace, and compares: all is stored, and the audit, with
// and without the table, says of each record what is so.
func (m *storm) end(all *sums) {
	m.t.Helper()
	m.before = nil
	p := m.site.run(m.conf)
	p.awaitBooks("T", func(a account) bool {
		if a.pending > 0 || a.spooled > 0 || !p.allRead() {
			return false
		}
		m.look()
		return len(m.table) == m.seq
	})
	p.stop()
	m.note(p)
	r, v := m.judge(true)
	if !r.OK || !r.Whole && !m.inexact { // a first segment that could not be written is no more
		m.t.Errorf("the audit says ok %v, whole %v", r.OK, r.Whole)
	}
	type copy struct {
		origin
		more int64
	}
	var doubles []copy
	for n := range m.seq {
		rows := m.table[n]
		if len(rows) == 0 {
			m.t.Errorf("record %d is missing", n)
			continue
		}
		if !m.inexact && !slices.ContainsFunc(rows, func(o origin) bool { return v.accepted[o] }) {
			m.t.Errorf("record %d is stored, and the audit does not count it as accepted", n)
		}
		if len(rows) == 1 {
			continue
		}
		all.doubles++
		all.extra += len(rows) - 1
		if !m.inexact && !m.cuts && len(rows) > 1+m.log[rows[0]] {
			m.t.Errorf("record %d is stored %d times, and the log named it %d times", n, len(rows), m.log[rows[0]])
		}
		doubles = append(doubles, copy{rows[0], int64(len(rows) - 1)})
	}
	if !m.inexact {
		out, words := m.show(cmp.Or(min(len(doubles), 1), 0), "audit", "--config", m.path("agent.yaml"), "--against-table", "--json")
		var t tableAudit
		if err := json.Unmarshal([]byte(out), &t); err != nil {
			m.t.Fatalf("%v: %.1000s %s", err, out, words)
		}
		var found []copy
		for _, x := range t.Table.Doubled {
			found = append(found, copy{origin{fmt.Sprintf("%s/%d", x.File, x.Generation), x.Offset}, x.Records})
		}
		order := func(a, b copy) int { return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.at, b.at)) }
		slices.SortFunc(found, order)
		slices.SortFunc(doubles, order)
		if !slices.Equal(found, doubles) || len(t.Table.Missing) > 0 || t.Table.Checked != int64(m.seq) {
			m.t.Errorf("against the table the audit names %d doubles and %d missing of %d; the table has %d doubles of %d", len(found), len(t.Table.Missing), t.Table.Checked, len(doubles), m.seq)
		}
	}
	all.rounds, all.ends, all.records, all.unkept = all.rounds+m.rounds, all.ends+m.ends, all.records+m.seq, all.unkept+m.unkept
	all.again += len(m.log)
	m.t.Logf("so far %v", all)
}

// by starts the agent by way of strace, which does something to its calls. The agent
// stays our child; who traces it is its grandchild. When both have ended, last tells the
// last call that was traced.
func (m *storm) by(call, inject string) (last func() string) {
	m.t.Helper()
	pipe := m.path("trace")
	if err := unix.Mkfifo(pipe, 0o600); err != nil && err != unix.EEXIST {
		m.t.Fatal(err)
	}
	m.before = []string{m.toolPath("strace"), "-D", "-f", "-y", "-qq", "-o", pipe, "-e", "trace=" + call, "-e", "inject=" + call + ":" + inject}
	said := make(chan string, 1)
	// Started here, ended by the end of who traces, awaited by last.
	go func() {
		text := ""
		defer func() { said <- text }()
		f, err := os.Open(pipe)
		if err != nil {
			return
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if strings.Contains(lines.Text(), "(") && !strings.Contains(lines.Text(), "resumed>") {
				text = lines.Text()
			}
		}
	}()
	return func() string { return <-said }
}

// alone ends whoever traces the agent: a tracer that meets a kill of its own and one of
// somebody else at once may never end.
func (m *storm) alone(p *process) {
	m.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return // it has ended
	}
	_, after, _ := strings.Cut(string(status), "TracerPid:\t")
	if tracer, _ := strconv.Atoi(strings.TrimSpace(strings.SplitN(after, "\n", 2)[0])); tracer > 0 {
		_ = unix.Kill(tracer, unix.SIGKILL) // it may have ended by itself
	}
}

// stormTime says whether KUSTO_AGENT_STORM, a time, is over. There is no short form: the
// ordinary tests end processes and disks in fewer places, and do not need strace for it.
func stormTime(t *testing.T) (over func() bool) {
	t.Helper()
	if !longForm {
		t.Skip("long form: set KUSTO_AGENT_LONG=1")
	}
	limit, err := time.ParseDuration(os.Getenv("KUSTO_AGENT_STORM"))
	began := time.Now()
	return func() bool { return err == nil && time.Since(began) > limit }
}

// inSites plays rounds until there were as many, in folders that last for perSite of them.
func inSites(t *testing.T, rounds int, prepare func(m *storm), play func(m *storm, round int)) (all sums) {
	over := stormTime(t)
	for seed := 0; seed*perSite < rounds && !over(); seed++ {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			m := newStorm(t, seed)
			prepare(m)
			for i := seed * perSite; i < min(rounds, (seed+1)*perSite) && !over() && !t.Failed(); i++ {
				play(m, i)
				_, v := m.judge(false)
				m.removeOld(v)
			}
			m.end(&all)
		})
	}
	t.Logf("%v", &all)
	return all
}

// target is a call at which the agent is killed, the n'th time that a thread makes it.
type target struct {
	call         string
	n            int
	hits, misses int
}

// targets are the calls by which the agent keeps its state, reads its input and talks to
// the service.
func targets() (all []*target) {
	for _, n := range []int{1, 2, 3, 4, 6, 9, 14, 25} {
		for _, call := range []string{"fdatasync", "fsync", "pwrite64", "rename,renameat,renameat2", "unlinkat", "ftruncate", "fallocate", "mkdirat",
			"openat", "close", "write", "read", "pread64", "newfstatat,statx", "getdents64", "inotify_add_watch", "connect", "accept4"} {
			all = append(all, &target{call: call, n: n})
		}
	}
	return all
}

var (
	callNumbers = regexp.MustCompile(`[0-9a-f]{8,}|[0-9]+`)
	firstWord   = regexp.MustCompile(`^[0-9]+ +([a-z0-9_]+)\(`)
	openFile    = regexp.MustCompile(`<([a-z_A-Z]+)`)
)

// struckAt is a call and the kind of file that it was about: of a traced line.
func (m *storm) struckAt(line string) string {
	call := firstWord.FindStringSubmatch(line)
	if call == nil {
		return ""
	}
	_, name, found := strings.Cut(line, m.dir+"/")
	for found && strings.Contains(name, m.dir+"/") {
		_, name, _ = strings.Cut(name, m.dir+"/")
	}
	if found {
		name = name[:max(0, strings.IndexAny(name, `"<>`))]
		return call[1] + " " + callNumbers.ReplaceAllString(name, "N")
	}
	if kind := openFile.FindStringSubmatch(line); kind != nil {
		return call[1] + " " + kind[1]
	}
	return call[1] + " elsewhere"
}

// TestKillsAtCalls: a kill at any call of the system loses nothing, whether the service
// is there or not, and doubles only what the audit names.
func TestKillsAtCalls(t *testing.T) {
	t.Parallel()
	const rounds = 2000
	choice, places := targets(), map[string]int{}
	next := 0
	all := inSites(t, rounds, func(m *storm) {
		m.tool("strace", "-D", "-f", "-o", "/dev/null", "true")
		m.random.Shuffle(len(choice), func(i, j int) { choice[i], choice[j] = choice[j], choice[i] })
	}, func(m *storm, round int) {
		m.write(perRound / 2)
		for next++; choice[next%len(choice)].misses > 1 && choice[next%len(choice)].hits == 0; next++ { // it is not made so often
		}
		at := choice[next%len(choice)]
		last := m.by(at.call, fmt.Sprintf("signal=SIGKILL:when=%d", at.n))
		var outage *emulator.Script
		if round%3 == 2 {
			outage = m.server.Fail(emulator.Fault{Status: 503})
		}
		p := m.start()
		struck := m.play(p, clusterDown)
		m.alone(p)
		p.kill()
		if outage != nil {
			outage.Remove()
		}
		m.note(p)
		if line := last(); struck {
			m.ends++
			at.hits++
			places[fmt.Sprintf("%s, time %d", m.struckAt(line), at.n)]++
		} else {
			at.misses++
		}
	})
	kinds := map[string]int{}
	for place, n := range places {
		kind, _, _ := strings.Cut(place, ",")
		kinds[kind] += n
	}
	maps.DeleteFunc(kinds, func(kind string, _ int) bool { // strace does not say of which file
		_, file, _ := strings.Cut(kind, " ")
		return file == "" || file == "elsewhere" || file == "unfinished"
	})
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		t.Logf("%5d %s", kinds[kind], kind)
	}
	t.Logf("%d kills in the call that was meant, at %d calls of %d kinds", all.ends, len(places), len(kinds))
	if all.rounds >= rounds && len(kinds) < 40 {
		t.Errorf("kills struck at %d kinds of calls, want 40", len(kinds))
	}
}

// TestEveryCallFails: a call of the system that fails once, whichever it is, loses
// nothing and doubles nothing that is not named.
func TestEveryCallFails(t *testing.T) {
	t.Parallel()
	errnos := []string{"EIO", "ENOSPC", "EROFS"}
	calls := []string{"fdatasync", "fsync", "pwrite64", "renameat2", "unlinkat", "ftruncate", "fallocate", "mkdirat"}
	// What was sent before a stop that could not save the state may be sent again: only
	// the log can tell.
	prepare := func(m *storm) {
		m.inexact = true
		m.tool("strace", "-D", "-f", "-o", "/dev/null", "true")
	}
	inSites(t, 5*len(calls)*len(errnos), prepare, func(m *storm, round int) {
		m.write(perRound / 2)
		last := m.by(calls[round%len(calls)], fmt.Sprintf("error=%s:when=%d", errnos[round/len(calls)%len(errnos)], 1+round/len(calls)/len(errnos)))
		p := m.start()
		if m.play(p, "") {
			m.ends++ // it says that it cannot start
			if p.code() != 1 {
				t.Errorf("it ends with %d by a call of %s that fails", p.code(), calls[round%len(calls)])
			}
		} else {
			p.watchBooks()
			p.awaitSafe("T")
			p.signal(syscall.SIGTERM)
			switch code, unkept := p.code(), strings.Contains(p.log.text(), stateUnkept); {
			case unkept:
				m.unkept++
				m.unsure(m.seq)
			case code != 0:
				t.Errorf("it stops with %d after a call of %s failed", code, calls[round%len(calls)])
			}
		}
		last()
		m.note(p)
	})
}

// unsure has the doubles of all records up to one count as named: a log said so.
func (m *storm) unsure(upTo int) { m.vague = func(n int) bool { return n < upTo } }

// cut takes the power from an ext4 file system: nothing more gets to its device, not even
// its own journal.
func (m *storm) cut(name string) {
	m.t.Helper()
	const shutdown = 0x8004587d // EXT4_IOC_SHUTDOWN
	dir, err := os.Open(m.path(name))
	if err != nil {
		m.t.Fatal(err)
	}
	defer dir.Close()
	if err := unix.IoctlSetPointerInt(int(dir.Fd()), shutdown, 2); err != nil {
		m.t.Skipf("the kernel refuses to take the power from a disk: %v", err)
	}
}

// another puts a disk in the place of one that has lost its power, which holds what had
// got to that one. It is a copy: the kernel keeps the first as long as anybody, such as
// another test with mounts of its own, has it in sight.
func (m *storm) another(name string) {
	m.t.Helper()
	if err := unix.Unmount(m.path(name), unix.MNT_DETACH); err != nil {
		m.t.Fatal(err)
	}
	image := m.path(name + ".img")
	m.tool("cp", "--sparse=always", image, image+".new")
	if err := os.Rename(image+".new", image); err != nil {
		m.t.Fatal(err)
	}
	if err := m.mountImage(name); err != nil {
		m.t.Fatalf("round %d: %v", m.rounds, err)
	}
}

// TestPowerCuts: a disk of state that loses its power at any moment, with whatever was not
// synced, loses no record. What is stored twice is in ranges that the next start names: to
// it another boot of the machine has begun.
func TestPowerCuts(t *testing.T) {
	t.Parallel()
	boot := `mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"`
	inSites(t, 1000, func(m *storm) {
		m.cuts = true
		m.conf = strings.Replace(m.conf, "state_dir: ${DIR}/state", "state_dir: ${DIR}/disk/state", 1)
		m.ext4("disk", 1024)
		m.site.write("boot", "the first\n")
		m.tool("unshare", "--mount", "sh", "-c", boot, m.path("boot"), "true")
	}, func(m *storm, round int) {
		m.write(perRound / 2)
		m.site.write("boot", fmt.Sprintf("boot %d\n", round))
		m.before = []string{m.toolPath("unshare"), "--mount", "sh", "-c", boot, m.path("boot")}
		var outage *emulator.Script
		if round%3 == 2 {
			outage = m.server.Fail(emulator.Fault{Status: 503})
		}
		p := m.start()
		if round%2 == 0 || outage != nil { // else while it starts and sends
			m.play(p, clusterDown)
		} else {
			m.awaitRequests(m.server.Totals().Requests + m.random.IntN(4))
			m.write(perRound / 2)
		}
		m.cut("disk")
		p.kill()
		if outage != nil {
			outage.Remove()
		}
		m.another("disk")
		m.note(p)
		m.site.write("boot", fmt.Sprintf("boot after %d\n", round))
	})
}
