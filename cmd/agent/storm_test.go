package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
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

// storm is a crash in rounds. In each an application writes some records and rotates its
// file now and then, an agent starts, and something happens to it. At the end nothing is
// missing, every record that is stored twice is in a batch that a log names, and an audit
// finds no gap.
type storm struct {
	crash
	conf   string
	paths  map[string]string // of files, by the id that the log tells
	named  []span
	ends   int // rounds in which the agent ended by what happened to it
	unkept int // rounds at whose end the log says that the state was not saved
}

// perRound is how many records are written in a round: a few batches of them.
const perRound = 120

func newStorm(t *testing.T, rounds int) *storm {
	m := &storm{paths: map[string]string{}}
	m.site = newSite(t, emulator.Options{KeepRequests: 1 << 20})
	m.records, m.perFile = rounds*perRound, 3*perRound
	m.conf = open + hasty + "batch: {max_size: 16KiB}\nspool: {min_free: 0}\n" + `inputs: [{paths: ["${DIR}/logs/app.json*"], format: JSON, table: T, mapping: m}]`
	return m
}

// start starts the agent, which may end at any moment.
func (m *storm) start() *process {
	m.t.Helper()
	m.site.write("agent.yaml", m.conf)
	p := m.launch("run", "--config", m.path("agent.yaml"))
	m.agent = p
	return p
}

// write is the application in a round.
func (m *storm) write(round int) {
	var b strings.Builder
	for seq := round * perRound; seq < (round+1)*perRound; seq++ {
		b.WriteString(crashLine(seq))
	}
	m.append("logs/app.json", b.String())
	if n := (round + 1) * perRound; n%m.perFile == 0 {
		m.rename("logs/app.json", fmt.Sprintf("logs/app.json.%04d", n/m.perFile-1))
	}
}

// settled waits until the agent has ended, or the log has a text, or all rows so far are
// stored; it reports whether the agent has ended.
func (m *storm) settled(p *process, round int, text string) bool {
	m.t.Helper()
	ctx, cancel := m.waiting()
	defer cancel()
	stored := make(chan struct{})
	// Started here, ended by the wait or the end of this one, awaited by nobody.
	go func() {
		if m.server.WaitRows(ctx, "Logs", "T", (round+1)*perRound) == nil {
			close(stored)
		}
	}()
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

// note takes over what the log of an ended agent names.
func (m *storm) note(p *process) {
	m.t.Helper()
	m.named = append(m.named, m.crash.named(p)...)
}

// forgot takes over what the log of a round says: that what was sent may be sent again.
func (m *storm) forgot(round int) {
	m.unkept++
	m.paths["all"] = "app.json.0000"
	m.named = append(m.named, span{id: "all", end: int64(round+1) * perRound * crashRecord})
}

// judge runs the agent once more, in peace, and compares.
func (m *storm) judge() {
	m.t.Helper()
	p := m.site.run(m.conf)
	p.awaitBooks("T", func(a account) bool {
		return a.pending == 0 && a.spooled == 0 && m.server.RowCount("Logs", "T") >= m.records && p.allRead()
	})
	for _, f := range p.status().Files {
		m.paths[f.ID] = f.Path
	}
	p.stop()
	m.note(p)
	if strings.Contains(p.log.text(), "the machine stopped: ") {
		m.forgot(m.records/perRound - 1)
	}
	if m.unkept > 0 { // a file may have got another id since, and the whole of it is named
		m.named = slices.DeleteFunc(m.named, func(s span) bool { return m.paths[s.id] == "" })
	}
	m.compare(m.named, m.paths)
	r := m.audited(0)
	if got := strings.Fields(faults(r)); m.unkept == 0 && (len(got) > 0 || !r.Whole) ||
		slices.ContainsFunc(got, func(what string) bool { return what != string(audit.Doubled) }) {
		m.t.Errorf("the audit finds %q, whole %v", got, r.Whole)
	}
	records := int64(0)
	for _, f := range r.Files {
		for _, route := range f.Routes {
			records += route.Accepted.Records
		}
	}
	if m.unkept == 0 && records != int64(m.records) {
		m.t.Errorf("the audit knows of %d records that were accepted, want %d", records, m.records)
	}
	m.t.Logf("%d records, %d ends, %d stops without a saved state, %d ranges named", m.records, m.ends, m.unkept, len(m.named))
}

// by starts the agent by way of strace, which does something to its calls. The agent
// stays our child; who traces it is its grandchild.
func (m *storm) by(inject string) {
	call, _, _ := strings.Cut(inject, ":")
	m.before = []string{m.toolPath("strace"), "-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=" + call, "-e", "inject=" + inject}
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

// stormRounds is how many rounds a storm has at most, and whether KUSTO_AGENT_STORM, a
// time, is over. There is no short form: the ordinary tests end processes and disks in
// fewer places, and do not need strace for it.
func stormRounds(t *testing.T, most int) (n int, over func() bool) {
	t.Helper()
	if !longForm {
		t.Skip("long form: set KUSTO_AGENT_LONG=1")
	}
	limit, err := time.ParseDuration(os.Getenv("KUSTO_AGENT_STORM"))
	began := time.Now()
	return most, func() bool { return err == nil && time.Since(began) > limit }
}

// The calls by which the agent keeps its state: what is done to one of them, the first,
// second, third or fourth time that a thread makes it, is done in a place of its own.
var stateCalls = []string{"fdatasync", "fsync", "pwrite64", "renameat2", "unlinkat", "ftruncate", "fallocate", "openat", "sendto", "write"}

// TestKillsAtCalls: a kill at any call of the system loses nothing, whether the service
// is there or not, and doubles only what is named.
func TestKillsAtCalls(t *testing.T) {
	t.Parallel()
	rounds, over := stormRounds(t, 2000)
	m := newStorm(t, rounds)
	m.conf = "journal: {max_size: 8GiB}\n" + m.conf // so that the audit can speak of all rounds
	m.tool("strace", "-D", "-f", "-o", "/dev/null", "true")
	for round := range rounds {
		if over() {
			m.records = round * perRound
			break
		}
		m.write(round)
		// 7 has no factor in common with 40, so that every place has its turn.
		place := round * 7 % (4 * len(stateCalls))
		m.by(fmt.Sprintf("%s:signal=SIGKILL:when=%d", stateCalls[place%len(stateCalls)], 1+place/len(stateCalls)))
		var outage *emulator.Script
		if round%3 == 2 {
			outage = m.server.Fail(emulator.Fault{Status: 503})
		}
		p := m.start()
		if m.settled(p, round, clusterDown) {
			m.ends++
		}
		m.alone(p)
		p.kill()
		if outage != nil {
			outage.Remove()
		}
		m.note(p)
	}
	if m.ends == 0 {
		t.Error("no kill struck")
	}
	m.before = nil
	m.judge()
}

// TestEveryCallFails: a call of the system that fails once, whichever it is, loses
// nothing and doubles nothing that is not named.
func TestEveryCallFails(t *testing.T) {
	t.Parallel()
	errnos := []string{"EIO", "ENOSPC", "EROFS"}
	calls := []string{"fdatasync", "fsync", "pwrite64", "renameat2", "unlinkat", "ftruncate", "fallocate", "mkdirat"}
	rounds, over := stormRounds(t, 5*len(calls)*len(errnos))
	m := newStorm(t, rounds)
	m.tool("strace", "-D", "-f", "-o", "/dev/null", "true")
	for round := range rounds {
		if over() {
			m.records = round * perRound
			break
		}
		m.write(round)
		call := calls[round%len(calls)]
		m.by(fmt.Sprintf("%s:error=%s:when=%d", call, errnos[round/len(calls)%len(errnos)], 1+round/len(calls)/len(errnos)))
		p := m.start()
		if m.settled(p, round, "") {
			m.ends++ // it says that it cannot start
			if p.code() != 1 {
				t.Errorf("it ends with %d by a call of %s that fails", p.code(), call)
			}
			m.note(p)
			continue
		}
		p.watchBooks()
		p.awaitSafe("T")
		p.signal(syscall.SIGTERM)
		switch code, unkept := p.code(), strings.Contains(p.log.text(), stateUnkept); {
		case unkept:
			m.forgot(round)
		case code != 0:
			t.Errorf("it stops with %d after a call of %s failed", code, call)
		}
		m.note(p)
	}
	m.before = nil
	m.judge()
}

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
func (m *storm) another(name, device string, round int) string {
	m.t.Helper()
	if err := unix.Unmount(m.path(name), unix.MNT_DETACH); err != nil {
		m.t.Fatal(err)
	}
	m.tool("losetup", "-d", device) // once nobody has it
	image := m.path(name + ".img")
	m.tool("cp", "--sparse=always", image, image+".new")
	if err := os.Rename(image+".new", image); err != nil {
		m.t.Fatal(err)
	}
	device = m.tool("losetup", "--find", "--show", image)
	m.t.Cleanup(func() { _ = exec.Command(m.toolPath("losetup"), "-d", device).Run() })
	if err := unix.Mount(device, m.path(name), "ext4", 0, "errors=remount-ro"); err != nil {
		m.t.Fatalf("round %d: %v", round, err)
	}
	return device
}

// TestPowerCuts: a disk of state that loses its power at any moment, with whatever was not
// synced, loses no record. What is stored twice is in files that the next start names: to
// it another boot of the machine has begun.
func TestPowerCuts(t *testing.T) {
	t.Parallel()
	rounds, over := stormRounds(t, 1000)
	m := newStorm(t, rounds)
	m.conf = strings.Replace(m.conf, "state_dir: ${DIR}/state", "state_dir: ${DIR}/disk/state", 1)
	device := m.ext4("disk", 1024)
	boot := `mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"`
	m.site.write("boot", "the first\n")
	m.tool("unshare", "--mount", "sh", "-c", boot, m.path("boot"), "true")
	random := rand.New(rand.NewPCG(1, uint64(rounds)))
	for round := range rounds {
		if over() {
			m.records = round * perRound
			break
		}
		m.write(round)
		m.site.write("boot", fmt.Sprintf("boot %d\n", round))
		m.before = []string{m.toolPath("unshare"), "--mount", "sh", "-c", boot, m.path("boot")}
		var outage *emulator.Script
		if round%3 == 2 {
			outage = m.server.Fail(emulator.Fault{Status: 503})
		}
		p := m.start()
		if round%2 == 0 || outage != nil { // else while it starts and sends
			m.settled(p, round, clusterDown)
		} else {
			m.awaitRequests(m.server.Totals().Requests + random.IntN(4))
		}
		m.cut("disk")
		p.kill()
		if outage != nil {
			outage.Remove()
		}
		device = m.another("disk", device, round)
		m.note(p)
		if strings.Contains(p.log.text(), "the machine stopped: ") {
			m.forgot(round)
		}
	}
	m.site.write("boot", "the last\n")
	m.judge()
}
