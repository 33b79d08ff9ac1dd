package simulation

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kusto-agent/internal/durable/faultfs"
	"kusto-agent/internal/record"
	"kusto-agent/internal/units"
	"kusto-agent/spool"
)

// verbose keeps a trace: of the one seed that is asked for, or with KUSTO_AGENT_TRACE of
// each, since a failure may not come again with the same seed.
var (
	single  = os.Getenv("KUSTO_AGENT_SEED") != ""
	verbose = single || os.Getenv("KUSTO_AGENT_TRACE") != ""
)

// histories is which seeds are played.
func histories(t *testing.T) (first, n uint64) {
	number := func(key string) uint64 {
		n, err := strconv.ParseUint(os.Getenv(key), 10, 64)
		if err != nil && os.Getenv(key) != "" {
			t.Fatal(err)
		}
		return n
	}
	switch {
	case single:
		return number("KUSTO_AGENT_SEED"), 1
	case os.Getenv("KUSTO_AGENT_SEEDS") != "":
		return number("KUSTO_AGENT_FIRST"), number("KUSTO_AGENT_SEEDS")
	case os.Getenv("KUSTO_AGENT_LONG") != "":
		return 1, 200_000
	case testing.Short(), racing:
		return 1, 200
	}
	return 1, 2_000
}

// TestHistories plays random histories, each from one seed.
func TestHistories(t *testing.T) {
	first, n := histories(t)
	shards := min(uint64(4), n)
	var mu sync.Mutex
	lines := map[string]int{}
	bad := 0
	t.Cleanup(func() {
		if testing.Verbose() {
			for text, n := range lines {
				t.Logf("%7d %s", n, text)
			}
		}
	})
	for shard := range shards {
		t.Run(fmt.Sprint(shard), func(t *testing.T) {
			t.Parallel()
			for seed := first + shard; seed < first+n; seed += shards {
				w := playOne(t, seed)
				mu.Lock()
				for text, n := range w.count {
					lines[text] += n
				}
				stop := false
				if w.err != nil {
					t.Errorf("KUSTO_AGENT_SEED=%d: %v", seed, w.err)
					if verbose {
						t.Log(strings.Join(w.trace, "\n"))
					}
					bad++
				}
				stop = bad >= 10
				mu.Unlock()
				if stop {
					return
				}
			}
		})
	}
}

func playOne(t *testing.T, seed uint64) (w *world) {
	defer func() {
		if r := recover(); r != nil {
			fmt.Printf("KUSTO_AGENT_SEED=%d\n", seed)
			panic(r)
		}
	}()
	synctest.Test(t, func(t *testing.T) { w = play(seed) })
	return w
}

// history is one that is being played.
type history struct {
	*world
	rnd     *rand.Rand
	p       *process // nil: none runs
	runs    int
	storage *faultfs.FS
	boots   int
	setup   setup
	poison  float64
}

func play(seed uint64) *world {
	w := &world{
		seed: seed, began: time.Now(), count: map[string]int{}, byName: map[record.File]*file{}, lines: map[string]*line{},
		shape: map[string]int{}, absent: map[string]bool{}, removed: map[string]bool{},
		away: map[string]bool{}, denied: map[string]bool{}, early: map[string]bool{}, down: map[string]bool{}, slow: map[string]bool{},
		throttled: map[string]time.Duration{}, held: map[string]bool{},
		names: map[record.BatchID]bool{}, parent: map[record.BatchID]record.BatchID{}, covers: map[record.BatchID][]record.Extent{}, gone: map[string]int{},
		synced: time.Now(),
	}
	h := &history{world: w, rnd: rand.New(rand.NewPCG(seed, 1)), storage: faultfs.New(stateDir)}
	h.disk.seed = seed
	h.setup = setup{send: sendConfig(1+h.rnd.IntN(6), 0), spool: spool.Config{MaxSize: []units.Size{16 << 10, 64 << 10, 1 << 20}[h.rnd.IntN(3)], WhenFull: "block"}}
	h.poison = []float64{0, 0.02, 0.1}[h.rnd.IntN(3)]
	for i, in := range inputs {
		for k := range 1 + h.rnd.IntN(2) {
			f := &file{name: record.File{Input: in, ID: record.FileID(10*i + k + 1)}}
			w.files = append(w.files, f)
			w.byName[f.name] = f
		}
	}
	h.run()
	steps := 5 + h.rnd.IntN(30)
	gap := []time.Duration{time.Second, 4 * time.Second, 20 * time.Second}[h.rnd.IntN(3)]
	for i := 0; i < steps && h.ok(); i++ {
		h.event()
		h.pass(time.Duration(h.rnd.Int64N(int64(gap))))
	}
	h.heal()
	h.end()
	if h.p != nil {
		h.p.stopReading()
		h.p.stopSending()
		<-h.p.reading
		<-h.p.recovering
		<-h.p.sending
		_ = h.p.spool.Close()
		_ = h.p.journal.Close()
	}
	time.Sleep(10 * time.Minute) // what stalls ends: time stands still when this returns
	return w
}

func (w *world) ok() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err == nil
}

// run starts a process; where the disk does not let it, later.
func (h *history) run() {
	for h.p == nil {
		h.runs++
		arm := func(p *process) {
			p.torn, p.cut = h.rnd.IntN(2) == 0, h.rnd.IntN(3) == 0
			if !h.cured && h.rnd.IntN(6) == 0 {
				p.toOp.Store(1 + h.rnd.Int64N(60)) // in the start, or soon after
			}
		}
		p, err := h.start(h.runs, h.storage, fmt.Sprint(h.boots), h.setup, arm)
		if err == nil {
			h.p = p
			h.note("process %d runs", h.runs)
			return
		}
		h.note("process %d: %v", h.runs, err)
		p.die("by itself")
		h.crash(p)
		time.Sleep(5 * time.Second)
		if h.disk.in == "" && h.disk.full == "" || h.runs > 30 {
			h.wellDisk()
		}
	}
}

// crash has the disk as it is after a process.
func (h *history) crash(p *process) {
	mode := faultfs.Kill
	if p.cut {
		h.boots++
		h.mu.Lock()
		h.nameless = true
		h.mu.Unlock()
		mode = []faultfs.Mode{faultfs.Drop, faultfs.Zero, faultfs.Random}[h.rnd.IntN(3)]
	}
	h.storage = p.disk.Crash(mode, h.seed+uint64(p.n))
}

// pass lets time go by. A process that dies meanwhile is started again.
func (h *history) pass(d time.Duration) {
	if h.p == nil {
		h.run()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-h.p.died:
		h.again()
	}
	h.p.books(false)
	well := h.p.journal.Health() == nil
	h.mu.Lock()
	if !h.badSince.IsZero() && well && h.disk.in == "" && h.disk.full == "" && time.Since(h.lastBad) > 30*time.Second {
		h.badSince = time.Time{}
	}
	h.mu.Unlock()
}

// again starts a process after one that died.
func (h *history) again() {
	p := h.p
	p.reap()
	h.p = nil
	h.crash(p)
	h.mu.Lock()
	h.badSince = time.Time{}
	h.mu.Unlock()
	time.Sleep(time.Duration(h.rnd.IntN(3000)) * time.Millisecond)
	if h.rnd.IntN(4) == 0 {
		h.harm()
	}
	h.run()
}

func (h *history) wellDisk() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.world.disk = diskFaults{seed: h.seed, counter: h.world.disk.counter}
}

// heal ends all faults but for poisonous bodies.
func (h *history) heal() {
	h.note("heal")
	h.wellDisk()
	h.mu.Lock()
	for _, m := range []map[string]bool{h.away, h.denied, h.early, h.down, h.slow, h.held, h.absent, h.removed} {
		clear(m)
	}
	clear(h.throttled)
	h.flaky, h.full, h.jump = 0, false, 0
	for _, f := range h.files {
		f.denied, f.slow = false, false
	}
	h.mu.Unlock()
	h.setup.send = sendConfig(4, 0)
	h.setup.spool = spool.Config{MaxSize: 1 << 20, WhenFull: "block"}
	if h.p == nil {
		h.run()
	}
	h.reload()
}

func (h *history) reload() {
	h.p.spool.SetConfig(h.setup.spool)
	h.p.sender.Reload(h.setup.send, h.p.clusters())
	h.p.wake()
}

func (h *history) url() string { return []string{"http://one", "http://two"}[h.rnd.IntN(2)] }

// event is something that happens.
func (h *history) event() {
	h.mu.Lock()
	f := h.files[h.rnd.IntN(len(h.files))]
	in := inputs[h.rnd.IntN(len(inputs))]
	url, table := h.url(), fmt.Sprint(in, h.shape[in])
	toggle := func(m map[string]bool, key string) {
		m[key] = !m[key]
		h.trace = append(h.trace, fmt.Sprintf("%10v toggle %s %v", time.Since(h.began).Round(time.Millisecond), key, m[key]))
	}
	unlock := sync.OnceFunc(h.mu.Unlock)
	defer unlock()
	disk := &h.world.disk
	what := h.rnd.IntN(40)
	if verbose {
		h.trace = append(h.trace, fmt.Sprintf("%10v event %d", time.Since(h.began).Round(time.Millisecond), what))
	}
	switch what {
	default: // 0 to 9: records come
		unlock()
		h.write(f, h.rnd, 1+h.rnd.IntN(12), h.poison)
		h.p.wake()
	case 10:
		toggle(h.down, url)
	case 11:
		toggle(h.slow, url)
	case 12:
		toggle(h.away, url)
	case 13:
		toggle(h.denied, url)
		h.early[url] = h.rnd.IntN(2) == 0
	case 14:
		if h.throttled[table] > 0 {
			delete(h.throttled, table)
		} else {
			h.throttled[table] = time.Duration(1+h.rnd.IntN(100)) * time.Second
		}
	case 15:
		toggle(h.held, table)
	case 16:
		h.flaky = []int{0, 5, 30}[h.rnd.IntN(3)]
	case 17:
		disk.full = []string{"", h.sick()}[h.rnd.IntN(2)]
	case 18, 19, 20:
		disk.in = h.sick()
		disk.write, disk.sync, disk.stall = 0, 0, 0
		*[]*int{&disk.write, &disk.sync, &disk.stall}[h.rnd.IntN(3)] = 5 + h.rnd.IntN(50)
	case 21, 22:
		*disk = diskFaults{seed: h.seed, counter: disk.counter}
	case 23:
		disk.read = []int{0, 5, 20}[h.rnd.IntN(3)]
	case 24:
		h.p.toOp.Store(1 + h.rnd.Int64N(40))
	case 25:
		h.p.toAsk.Store(1 + h.rnd.Int64N(8))
	case 26:
		h.p.toStored.Store(1 + h.rnd.Int64N(8))
	case 27:
		unlock()
		h.p.die("now")
	case 28, 29: // a stop and a start
		unlock()
		h.stop(time.Duration(1+h.rnd.IntN(30)) * time.Second)
	case 30:
		unlock()
		h.harm()
	case 31:
		f.denied = !f.denied
		h.p.wake()
	case 32:
		f.slow = !f.slow
	case 33:
		if h.rnd.IntN(3) == 0 {
			f.gone = true
		}
	case 34:
		h.jump = time.Duration(h.rnd.IntN(60)-30) * 24 * time.Hour
	case 35:
		h.setup.send = sendConfig(1+h.rnd.IntN(6), []units.Size{0, 200, 5000}[h.rnd.IntN(3)])
		retry := &h.setup.send.Retry
		retry.Patience = units.Duration([]time.Duration{2 * time.Second, 10 * time.Second, time.Minute}[h.rnd.IntN(3)])
		retry.Max = units.Duration([]time.Duration{5 * time.Second, 30 * time.Second}[h.rnd.IntN(2)])
		h.setup.spool.MaxSize = []units.Size{0, 16 << 10, 64 << 10, 1 << 20}[h.rnd.IntN(4)]
		h.setup.spool.WhenFull = []string{"block", "drop_oldest"}[h.rnd.IntN(2)]
		h.setup.spool.MaxAge = units.Duration([]time.Duration{0, 0, 10 * time.Minute}[h.rnd.IntN(3)])
		unlock()
		h.reload()
	case 36:
		toggle(h.removed, url)
		unlock()
		h.reload()
	case 37:
		toggle(h.absent, in)
		h.p.wake()
	case 38:
		h.shape[in] = (h.shape[in] + 1) % shapes
		h.p.wake()
	case 39:
		h.full = !h.full
	}
}

// stop ends the process in good order and starts another.
func (h *history) stop(patience time.Duration) {
	h.note("stop")
	p := h.p
	p.stop(patience)
	h.p = nil
	if p.dead.Load() {
		_ = p.spool.Close()
		_ = p.journal.Close()
	} else {
		p.cut = false
		p.dead.Store(true)
	}
	h.crash(p)
	h.mu.Lock()
	h.badSince = time.Time{}
	h.mu.Unlock()
	if h.rnd.IntN(4) == 0 {
		h.harm()
	}
	h.run()
}

// sick is where the disk fails: of the spool, of the journal, or of both.
func (h *history) sick() string {
	return []string{spoolDir, journalDir, stateDir}[h.rnd.IntN(3)]
}

// harm hurts a file of the spool.
func (h *history) harm() {
	disk := h.storage
	if h.p != nil {
		disk = h.p.disk
	}
	names, _ := disk.List(spoolDir)
	var all []string
	for _, n := range names {
		if !strings.HasSuffix(n, "damaged") {
			all = append(all, filepath.Join(spoolDir, n))
		}
	}
	if len(all) == 0 {
		return
	}
	name := all[h.rnd.IntN(len(all))]
	how := h.rnd.IntN(3)
	h.note("harm %s %d", name, how)
	at := h.rnd.Float64()
	switch how {
	case 0:
		disk.Vanish(name)
	case 1:
		disk.Damage(name, func(b []byte) []byte { return b[:len(b)*4/5] })
	case 2:
		disk.Damage(name, func(b []byte) []byte {
			if len(b) > 0 {
				b[int(at*float64(len(b)))] ^= 0x10
			}
			return b
		})
	}
}

// bound is the virtual time within which all is delivered once the faults are over.
const bound = 45 * time.Minute

// end waits until all is delivered that can be, then has nothing poisonous any more.
func (h *history) end() {
	h.await("sound", true, func() bool { return h.missing(true) == "" })
	h.mu.Lock()
	h.cured = true
	h.mu.Unlock()
	h.await("some", false, h.settled)
	if !h.ok() {
		return
	}
	h.p.books(true)
	for in, b := range h.p.ledger.Snapshot() {
		if b.Pending+b.Spooled > 0 && !h.p.dead.Load() {
			h.fail("input %s: %d records pending, %d in the spool in the books at the end", in, b.Pending, b.Spooled)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.judgeLoss()
	h.judgeDoubles()
}

func (h *history) await(what string, sound bool, done func() bool) {
	until := time.Now().Add(bound)
	for wait := time.Second; h.ok() && !done(); wait = min(2*wait, 30*time.Second) {
		if time.Now().After(until) {
			now, waiting, absent := h.p.recovery.Pending()
			routes, clusters := h.p.sender.Status()
			for _, in := range inputs {
				r := route(in, h.shape[in])
				n, served := h.p.sender.Credit(r)
				h.note("%v: credit %d, served %v, in hand %d, used %d", r, n, served, h.p.hand[r], h.p.used)
			}
			h.fail("%s records are not delivered within %v: %s; recovery has %d %d %d, spool %+v, sender %+v, %+v, %+v", what, bound, h.missing(sound),
				now, waiting, absent, h.p.spool.Stats(), h.p.sender.Progress(), routes, clusters)
			return
		}
		h.pass(wait)
	}
}

// missing names a record that was neither delivered nor refused nor given up; of those
// in files that are gone only what was promised counts. Soundly: of those that never
// shared a body with a poisonous one.
func (h *history) missing(sound bool) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	lost := map[string]int{}
	for _, f := range h.files {
		for _, l := range f.lines {
			if len(l.stores) == 0 && !l.kept && !l.given && !f.gone && !(sound && l.poisoned) {
				if lost[f.name.Input]++; h.nameless && lost[f.name.Input] <= h.gone[f.name.Input] {
					continue
				}
				return fmt.Sprintf("%s %s", f.name, l.text)
			}
		}
	}
	return ""
}

// settled says that nothing is left to do, nor being done: what is fetched may turn out to
// be lost, and is in hand nowhere until that is told.
func (h *history) settled() bool {
	synctest.Wait()
	if h.p.dead.Load() { // the next process may find more
		return false
	}
	now, waiting, _ := h.p.recovery.Pending()
	p := h.p.sender.Progress()
	return h.missing(false) == "" && now+waiting == 0 && p.Left+p.Spooled+p.Fetching == 0 && h.p.spool.Stats().Frames == 0
}

// judgeLoss: what was promised is stored, in quarantine, or told as lost. Needs mu.
func (h *history) judgeLoss() {
	lost := map[string]int{}
	for _, f := range h.files {
		for _, l := range f.lines {
			if len(l.stores) == 0 && !l.kept && !l.given && !(l.told && f.gone) && (!f.gone || !l.begun.IsZero()) {
				lost[f.name.Input]++
				if lost[f.name.Input] > h.gone[f.name.Input] {
					h.failed("%s %s is lost, and the log says so of %d", f.name, l.text, h.gone[f.name.Input])
				}
			}
		}
	}
}

// judgeDoubles: a record is stored again only after an answer that did not come, and
// where more than one request of one process is in it, by a name in the log. Needs mu.
func (h *history) judgeDoubles() {
	for _, f := range h.files {
		for _, l := range f.lines {
			for i := 1; i < len(l.stores); i++ {
				if why := h.unnamed(l.stores[i-1], l.stores[i]); why != "" {
					h.failed("%s %s is stored twice, %s: %s", f.name, l.text, why, h.describe(l.stores))
				}
			}
		}
	}
}

// describe is how a record was stored, and when what the journal was told was doubtful.
func (w *world) describe(stores []store) string {
	var b strings.Builder
	for _, s := range stores {
		fmt.Fprintf(&b, "at %v by run %d as %v attempt %d, delivered %v, answered %v; ", s.at.Sub(w.began), s.run, s.id, s.attempt, s.delivered, s.answered)
	}
	for _, d := range w.doubts {
		fmt.Fprintf(&b, "doubtful from %v to %v; ", d.from.Sub(w.began), d.to.Sub(w.began))
	}
	return strings.TrimSuffix(b.String(), "; ")
}

func (h *history) unnamed(a, b store) string {
	for _, d := range h.doubts {
		if !a.at.Before(d.from) && !a.at.After(d.to) {
			return ""
		}
	}
	for _, id := range []record.BatchID{a.id, b.id} {
		for n := 0; n < 20 && id != (record.BatchID{}); n++ {
			if h.names[id] {
				return ""
			}
			id = h.parent[id]
		}
	}
	switch {
	case a.delivered:
		return "after an answer that came"
	case a.id == b.id && b.attempt > a.attempt && a.answered:
		return ""
	}
	return "and named nowhere"
}

// dropped notes what the spool gave up. The spool tells it by its ranges, or where it
// cannot read these at that moment by its id.
func (w *world) dropped(d *record.Payload) {
	w.mu.Lock()
	defer w.mu.Unlock()
	cover := d.Cover
	if len(cover) == 0 {
		cover = w.covers[d.ID]
	}
	if len(cover) == 0 {
		d.Inputs(func(in string, n int) { w.gone[in] += n })
	}
	w.within(cover, func(l *line) { l.given = true })
}
