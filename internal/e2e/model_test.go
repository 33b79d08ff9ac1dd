package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"kusto-agent/emulator"
)

// modelSeeds are those that once found something.
var modelSeeds = []uint64{61, 105, 120, 198, 209, 293, 720, 732, 1112, 1240, 1441, 1486, 1508, 1716, 1866}

// TestModel does random things to files, to the agent and to the endpoint, and
// holds what was stored against what a model says must be: every record that could
// be read, nothing that was never written, and nothing twice but what the log or a
// lost answer explains. KUSTO_AGENT_MODEL=FIRST-LAST, or one number, chooses the seeds.
func TestModel(t *testing.T) {
	t.Parallel()
	first, last := uint64(1), uint64(50)
	switch chosen := os.Getenv("KUSTO_AGENT_MODEL"); {
	case chosen != "":
		from, to, found := strings.Cut(chosen, "-")
		first, _ = strconv.ParseUint(from, 10, 64)
		if last = first; found {
			last, _ = strconv.ParseUint(to, 10, 64)
		}
	case longForm:
		last = 2000
	case testing.Short() || underRace:
		last = 10
	}
	f := func(seed uint64) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			newModel(t, seed, "").live()
		})
	}
	for _, seed := range modelSeeds {
		if seed < first || seed > last {
			f(seed)
		}
	}
	for seed := first; seed <= last; seed++ {
		f(seed)
	}
}

// TestModelSlowed is the same with a twentieth of a CPU for each agent.
func TestModelSlowed(t *testing.T) {
	if !longForm {
		t.Skip("long form: set KUSTO_AGENT_LONG=1")
	}
	t.Parallel()
	for seed := range uint64(100) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			newModel(t, seed, slowGroup(t)).live()
		})
	}
}

// slowGroup makes a control group that gets a twentieth of a CPU, and returns the
// file its processes are written to.
func slowGroup(t *testing.T) (procs string) {
	t.Helper()
	for dir, limit := range map[string][2]string{
		"/sys/fs/cgroup/cpu": {"cpu.cfs_quota_us", "5000"},
		"/sys/fs/cgroup":     {"cpu.max", "5000 100000"},
	} {
		dir, err := os.MkdirTemp(dir, "kusto-agent-test-")
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = os.Remove(dir) })
		if err := os.WriteFile(filepath.Join(dir, limit[0]), []byte(limit[1]), 0o644); err == nil {
			return filepath.Join(dir, "cgroup.procs")
		}
	}
	t.Skip("no control group can be made that bounds CPU time")
	return ""
}

// live does random things, then has everything delivered, and compares.
func (m *model) live() {
	defer m.tell()
	for range 40 {
		m.step()
	}
	m.finish()
}

// model is an agent, its files and its endpoint, and what is known of them.
type model struct {
	*site
	gate     *gate
	brought  *brought
	random   *rand.Rand
	seed     uint64
	began    time.Time
	history  []string
	config   string
	format   string
	spooling bool // there is a spool
	hangs    bool // requests may hang, and time out soon

	n        int // of the last record made up
	names    int // of the last name made up
	records  map[string]*modelRecord
	had      map[string]bool // names and sizes there ever were
	files    []*modelFile
	pinned   []*modelFile   // deleted, and perhaps held by the agent
	inMemory []*modelRecord // of no file any more, and perhaps held by the agent

	group     string   // file that takes the processes of a control group; empty: they are in none
	agent     *process // nil: none runs
	paused    bool
	clean     bool // no batch was in doubt when it started
	runs      []*process
	missing   []string   // records at the end
	unsettled *modelFile // that was not seen, or not safe, at the last look
	outage    string     // what is wrong with the endpoint
	fault     *emulator.Script
}

// newModel starts it; the agents belong to a control group, if one is given.
func newModel(t *testing.T, seed uint64, group string) *model {
	m := &model{
		group: group,
		seed:  seed, random: rand.New(rand.NewPCG(seed, 5)), began: time.Now(), records: map[string]*modelRecord{}, had: map[string]bool{},
		site: newSite(t, emulator.Options{KeepRequests: 1 << 20}), clean: true,
	}
	m.brought = &brought{next: m.server, lines: map[string][]string{}, times: map[string]time.Time{}}
	m.gate = m.gatedFor(m.brought)
	m.server.Fail(emulator.Fault{When: emulator.AfterCommit, Delay: 2 * time.Millisecond}) // where a kill does the most harm
	m.configure()
	m.must(os.Mkdir(m.path("logs"), 0o755))
	m.start()
	return m
}

// configure chooses among what an agent can be told.
func (m *model) configure() {
	one := func(of ...string) string { return of[m.random.IntN(len(of))] }
	m.format = one("JSON", "JSON", "TXT", "CSV")
	m.spooling = m.random.IntN(6) > 0
	m.hangs = m.random.IntN(4) == 0
	input := `{paths: ["${DIR}/logs/*.log", "${DIR}/logs/*.log.*"], table: T, rotate_quiet: 100ms, max_record_size: 3KiB, format: ` + m.format
	if m.format == "JSON" {
		input += ", mapping: m"
	}
	if m.seed%2 == 0 {
		input += ", watch: poll"
		m.env = append(m.env, fastScans+"=50ms")
	}
	if m.random.IntN(4) == 0 && m.spooling {
		input += ", durability: spool"
	}
	config := open
	config += "batch: {max_wait: " + one("1ms", "20ms", "50ms") + ", " + one("max_size: 4KiB", "max_size: 64KiB", "max_size: 1MiB", "max_size: 1MiB, max_records: 7") + "}\n"
	if strings.Contains(config, "4KiB") {
		config += "limits: {memory: 256KiB}\n"
	}
	timeout := "20s"
	if m.hangs {
		timeout = "300ms"
	}
	config += "send: {concurrency: " + one("1", "3", "8") + ", timeout: " + timeout + ", retry: {initial: 5ms, max: 30ms, patience: 100ms}}\n"
	if !m.spooling {
		config += "spool: {max_size: 0}\nshutdown_timeout: 3s\n" // there is nothing to wait for in an outage
	}
	m.config = config + "inputs: [" + input + "}]\n"
}

// finish has everything delivered, and compares.
func (m *model) finish() {
	m.note("finish")
	m.repair()
	m.goOn()
	if m.agent == nil {
		m.start()
	}
	for _, f := range m.files {
		if f.partial != nil && !f.outside {
			m.put(f, 0)
		}
	}
	m.settle()
	m.until("all that has to arrive", func() bool {
		m.missing = m.left()
		a := m.agent.mustBooks()["T"]
		return len(m.missing) == 0 && a.pending+a.spooled == 0
	})
	m.agent.stop()
	m.agent = nil
	for _, f := range m.files {
		m.forgets(f)
	}
	last := m.run(strings.Replace(m.config, "patience: 100ms", "patience: 1m", 1), "--once") // what it has not made up its mind about comes now
	if code := last.code(); code != 0 && (code != 1 || len(m.quarantined()) == 0) {
		m.t.Errorf("--once: exit code %d", code)
	}
	m.runs = append(m.runs, last)
	m.compare()
}

// tell prints what was done, if that went wrong.
func (m *model) tell() {
	if m.t.Failed() {
		if f := m.unsettled; f != nil {
			m.note("not seen, or not safe, when it was last looked: %s with %d bytes", f.path, f.size)
		}
		for _, text := range m.missing {
			m.note("missing: %.50s, written to %s", text, m.records[text].place)
		}
		m.t.Logf("seed %d\n%s\n%s", m.seed, m.config, strings.Join(m.history, "\n"))
	}
}
