package tail

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"kusto-agent/internal/durable/faultfs"
	"kusto-agent/tail/internal/inode"
)

// What is done to files by those who do not write them: deploys, rotations, disks that
// lose what was not synced.

// site is where an application keeps its files, and who rotates them.
type site struct {
	kind   string          // flat, links, folders or logrotate; empty: flat, and nothing of this file is done
	home   string          // the folder of the files that are written to, with a slash behind it; empty: that of the world
	target string          // links: the folder that the home leads to
	wide   bool            // folders: a folder that was renamed is matched too
	cuts   bool            // the power is cut now and then
	ends   bool            // start_at: end
	padded map[string]bool // files that had zeros since a cut: not all that lies in them is known
	odd    map[string]int  // of files, since the agent was stopped: 1: they were renamed, 2: something else happened to them

	old      string              // logrotate: olddir, with a slash behind it; empty: none
	seen     bool                // its names are matched
	dated    bool                // dateext
	copies   bool                // renamecopy
	compress int                 // 0: not at all, 1: at once, 2: delaycompress
	chain    map[string][]string // suffixes of what was rotated, by file, the youngest first
	lies     map[string][]string // lines of what was rotated, by path
	loose    map[string]bool     // lines of what was compressed
	past     map[string]bool     // lines of before the agent ran
	aged     bool                // there are files of before that

	rotatedAt time.Time
}

// settle chooses a site by its seed and makes its folders. It returns its patterns.
func (m *alike) settle(seed uint64) []string {
	m.loose, m.padded, m.past = make(map[string]bool), make(map[string]bool), make(map[string]bool)
	m.lies, m.chain, m.odd = make(map[string][]string), make(map[string][]string), make(map[string]int)
	m.kindOf(seed)
	switch m.site.kind {
	case "links":
		m.home, m.target = "current/", "run0"
		m.do("mkdir", m.target)
		m.do("symlink", m.target, "current")
	case "folders":
		m.home = "app/log/"
		m.do("mkdir", "app/log")
		if m.wide = m.r.IntN(2) == 0; m.wide {
			return []string{"app*/log/*.log", "app*/log/*.log.*"}
		}
	case "logrotate":
		if m.r.IntN(2) == 0 {
			m.old = "old/"
			m.do("mkdir", "old")
		}
		m.seen, m.dated, m.copies, m.compress = m.r.IntN(2) == 0, m.r.IntN(2) == 0, m.r.IntN(4) == 0, m.r.IntN(3)
		if !m.seen {
			return []string{"*.log"}
		}
		return []string{"*.log", m.old + "*.log.*", m.old + "*.log-*"}
	}
	return []string{m.home + "*.log", m.home + "*.log.*"}
}

func (m *alike) kindOf(seed uint64) {
	if slices.Contains(alikeSeeds, int(seed)) {
		return
	}
	m.site.kind = []string{"flat", "links", "folders", "logrotate"}[seed/8%4]
	m.cuts, m.ends = seed%3 == 0, seed%6 == 1
}

// before makes files that are there before the agent runs for the first time: some that were rotated, to names
// that no pattern matches unless the input starts at the end of files, and then others that are written to.
// Nothing of them is ever stored, but for what is in a copy that the log names.
func (m *alike) before() {
	if m.site.kind == "" || m.seen && !m.ends {
		return
	}
	lay := func(f string) (lines []string) {
		lines = append(m.banner(), m.own()...)
		for _, l := range lines {
			m.past[l] = true
		}
		m.aged = true
		m.holds(f, lines)
		m.do("partial", f, text(lines))
		return lines
	}
	for _, name := range []string{"a.log", "b.log", "c.log"} {
		f := m.home + name
		for n := range m.r.IntN(4) {
			lines, to := lay(f), fmt.Sprintf("%s-%d", f, n)
			switch {
			case m.site.kind == "logrotate":
				to = m.shift(f)
			case m.ends && n > 0:
				to = fmt.Sprintf("%s.%d", f, n)
				m.isRotated(to)
			}
			m.lays(to, lines)
			m.do("mv", f, to)
		}
		if m.ends && m.r.IntN(2) == 0 {
			m.files[f] = lay(f)
		}
	}
	m.do("tick") // else the time does not tell what was written before the agent ran
}

// more is a step that only a site knows.
func (m *alike) more(f string) {
	switch m.r.IntN(6) {
	case 0:
		m.copied(f)
	case 1:
		m.rewrittenAway(f)
	case 2:
		m.flash()
	case 3:
		m.cut()
	default:
		switch m.site.kind {
		case "flat":
			[]func(){m.startedAnew, m.archived, m.replaced, m.keptBeside, m.copiedBefore}[m.r.IntN(5)]()
		case "links":
			m.deploy()
		case "folders":
			m.folderMoves()
		case "logrotate":
			m.logrotate()
		}
	}
}

// late writes to a file that is rotated already, by who still has it open.
func (m *alike) late(path string, lines []string) {
	for _, l := range lines {
		m.owed[l]++
	}
	m.lies[path] = append(m.lies[path], lines...)
	m.holds(path, lines)
	m.do("partial", path, text(lines))
	if !m.away && time.Since(m.rotatedAt) > m.in().RotateQuiet.D()/3 { // on a slow machine, it may have been let go before
		m.perhaps(lines)
	}
}

// lays notes that a file that nobody writes to for long has another path.
func (m *alike) lays(path string, lines []string) {
	m.lies[path] = slices.Clone(lines)
	m.holds(path, lines)
}

// unique are the lines that are written nowhere else.
func unique(lines []string) (own []string) {
	for _, l := range lines {
		if strings.HasPrefix(l, "line ") {
			own = append(own, l)
		}
	}
	return own
}

// copied copies a file and truncates it while some of it is not read.
func (m *alike) copied(f string) {
	was := m.files[f]
	if len(text(was)) < 16 || m.padded[f] || m.away && (m.odd[f] > 0 || !m.isTold(f)) {
		return
	}
	m.odd[f] = 2
	m.n++
	to := []string{fmt.Sprintf("%s.%d", f, m.n), fmt.Sprintf("%s-%d", f, m.n), fmt.Sprintf("%s.%d.log", strings.TrimSuffix(f, ".log"), m.n)}[m.r.IntN(3)]
	m.settled()
	m.write(f, m.own())
	m.holds(to, m.files[f])
	m.do("partial", to, text(m.files[f]))
	if m.away {
		if !m.isMatched(to) { // with 1 KiB of it read before, it would be known
			m.perhaps(m.unread[f])
		}
		m.rewrite(f, m.own())
		return
	}
	m.rewrite(f, nil)
}

// isTold reports whether what was read of a file tells it from all others.
func (m *alike) isTold(f string) bool {
	return len(unique(m.files[f][:max(len(m.files[f])-len(m.unread[f]), 0)])) > 0
}

// isMatched reports whether a pattern matches a file.
func (m *alike) isMatched(f string) bool {
	return slices.ContainsFunc(m.in().Paths, func(pattern string) bool {
		ok, err := filepath.Match(pattern, m.path(f))
		must(m.t, err)
		return ok
	})
}

// perhaps notes that lines need not be read.
func (m *alike) perhaps(lines []string) {
	for _, l := range lines {
		m.owed[l]--
		m.may[l]++
	}
}

// rewrittenAway truncates a file while the agent is stopped: what was not read is lost.
func (m *alike) rewrittenAway(f string) {
	if !m.away || len(text(m.files[f])) < 16 || m.odd[f] > 0 || !m.isTold(f) {
		return
	}
	m.odd[f] = 2
	m.perhaps(m.unread[f])
	m.rewrite(f, append(m.banner(), m.own()...))
}

// flash makes a file and renames it before any scan has seen it. Events tell of it.
func (m *alike) flash() {
	if m.away || m.in().Watch == "poll" || m.site.kind == "logrotate" {
		return
	}
	m.look()
	m.n++
	f := fmt.Sprintf("%sd%d.log", m.home, m.n)
	m.begin(f)
	m.n++
	m.write(f, []string{fmt.Sprint("line ", m.n)})
	last, to := fmt.Sprint("line ", m.n), strings.TrimSuffix(f, "log")+"old"
	m.moved(f, to)
	st, err := inode.At(m.path(to))
	must(m.t, err)
	in := m.tailer.inputs()[0]
	m.await("the file to be found", func() bool { // or read and let go
		return in.readers.Get(st.Node) != nil || in.suspect[st.Node].path != "" || m.boxed.has("in", last)
	})
	m.settled()
}

// archived stops the agent and compresses a file that is like no other and was read.
func (m *alike) archived() {
	if m.away {
		return
	}
	m.n++
	f := fmt.Sprintf("u%d.log", m.n)
	lines := []string{fmt.Sprint("line ", m.n, strings.Repeat("u", 1500))}
	m.write(f, append(lines, m.own()...))
	m.settled()
	m.stopOrKill()
	m.write(f, m.own())
	for _, l := range unique(m.files[f]) {
		m.exact[l] = true
	}
	to := f + ".1"
	m.holds(to+".gz", m.files[f])
	delete(m.files, f)
	m.do("mv", f, to)
	m.packed = true
	m.do("gzip", to)
}

// startedAnew renames a file that holds nothing but a banner, and makes the next one when that is
// let go: it begins with all that was read of the first.
func (m *alike) startedAnew() {
	if m.away {
		return
	}
	m.n++
	f := fmt.Sprintf("s%d.log", m.n)
	banner := []string{fmt.Sprint("service ", m.n, " is starting"), strings.Repeat("configuration ", 90)}
	m.write(f, banner)
	m.settled()
	m.moved(f, strings.TrimSuffix(f, "log")+"old")
	m.do("released")
	m.write(f, append(banner, m.own()...))
	m.settled()
}

// replaced deletes a file that held nothing but a header right after the next one with that header was
// made under another name. It may have been written to once more before, while there is no memory to
// read more.
func (m *alike) replaced() {
	if m.away {
		return
	}
	m.n++
	f, next := fmt.Sprintf("v%d.log", m.n), fmt.Sprintf("w%d.log", m.n)
	header := []string{fmt.Sprint("time,level,message of table ", m.n)}
	m.write(f, header)
	m.settled()
	late := m.r.IntN(2) == 0
	if late {
		m.do("full")
		m.n++
		m.write(f, []string{fmt.Sprint("line ", m.n)})
	}
	m.write(next, append(header, m.own()...))
	m.do("tick") // so that the next one is older than the deletion
	m.do("rm", f)
	delete(m.files, f)
	if late {
		m.look()
		m.look()
		m.do("room")
	}
	m.settled()
}

// keptBeside compresses a file that is read and stays, and removes the result again: nothing of it
// comes twice.
func (m *alike) keptBeside() {
	if m.away {
		return
	}
	m.n++
	f := fmt.Sprintf("k%d.log", m.n)
	m.write(f, []string{fmt.Sprint("line ", m.n, strings.Repeat("k", 1500))})
	m.settled()
	for _, l := range m.files[f] {
		m.exact[l] = true
	}
	m.packed = true
	m.holds(f+".gz", m.files[f])
	m.do("keep-gzip", f)
	m.do("decided")
	m.do("rm", f+".gz")
	m.settled()
}

// copiedBefore copies and truncates a file while the agent is stopped, to a name that a scan meets before
// its own. Its writer goes on.
func (m *alike) copiedBefore() {
	if m.away {
		return
	}
	m.n++
	f := fmt.Sprintf("y%d.log", m.n)
	m.write(f, []string{fmt.Sprint("line ", m.n, strings.Repeat("y", 1500))})
	m.settled()
	m.stopOrKill()
	to := fmt.Sprintf("y%d-1.log", m.n)
	m.holds(to, m.files[f])
	m.do("partial", to, text(m.files[f]))
	m.do("truncate", f, "0")
	m.files[f] = nil
	m.do("tick")
	m.n++
	m.write(f, []string{fmt.Sprint("line ", m.n)})
}

// allSeen is look, and waits until compressed files were looked through: until then, nobody holds
// them open.
func (m *alike) allSeen() {
	if m.look(); m.packs || m.packed {
		m.settled()
	}
}

// deploy leads the link to another folder.
func (m *alike) deploy() {
	if m.away && slices.Contains(slices.Collect(maps.Values(m.odd)), 2) {
		return
	}
	m.allSeen()
	was := m.target
	m.n++
	m.target = fmt.Sprint("run", m.n)
	for _, f := range slices.Sorted(maps.Keys(m.files)) {
		m.write(f, m.own())
	}
	m.do("mkdir", m.target)
	m.do("symlink", m.target, "link")
	m.rotatedAt = time.Now()
	m.do("mv", "link", "current")
	m.left(func(f string) string { return was + "/" + strings.TrimPrefix(f, m.home) })
}

// folderMoves renames the folder above that of the files.
func (m *alike) folderMoves() {
	if m.away && (!m.wide || len(m.odd) > 0) {
		return // nobody knows where all of it is
	}
	m.allSeen()
	m.n++
	to := fmt.Sprint("app.", m.n)
	for _, f := range slices.Sorted(maps.Keys(m.files)) {
		m.write(f, m.own())
	}
	m.rotatedAt = time.Now()
	m.do("mv", "app", to)
	m.do("mkdir", "app/log")
	m.left(func(f string) string { return to + strings.TrimPrefix(f, "app") })
}

// left is told that all files have another path: others are made where they were.
func (m *alike) left(path func(f string) string) {
	for _, f := range slices.Collect(maps.Keys(m.at)) { // also of files that were rotated or compressed
		if strings.HasPrefix(f, m.home) {
			m.holds(path(f), slices.Collect(maps.Keys(m.at[f])))
		}
	}
	for _, f := range slices.Sorted(maps.Keys(m.files)) {
		m.lays(path(f), m.files[f])
		if m.r.IntN(2) == 0 {
			m.late(path(f), m.own())
		}
	}
	clear(m.files)
	clear(m.unread)
	m.rotated = nil
	for _, f := range []string{"a.log", "b.log", "c.log"} {
		m.odd[m.home+f] = 2
		m.begin(m.home + f)
	}
	m.look()
}

// packSlowly compresses a file as gzip does, which removes it when all is written, while the
// agent looks at what is there of it, or is killed and started.
func (m *alike) packSlowly(f string) {
	m.boxed.note("> gzip slowly " + f)
	content, err := os.ReadFile(m.path(f))
	must(m.t, err)
	st, err := os.Stat(m.path(f))
	must(m.t, err)
	to, err := os.Create(m.path(f + ".gz"))
	must(m.t, err)
	defer to.Close()
	packed := packedBytes(".gz", content)
	half := m.r.IntN(len(packed))
	_, err = to.Write(packed[:half])
	must(m.t, err)
	m.look()
	if !m.away && m.r.IntN(4) == 0 {
		m.do("kill")
		m.do("start")
	}
	_, err = to.Write(packed[half:])
	must(m.t, err)
	must(m.t, os.Chtimes(m.path(f+".gz"), st.ModTime(), st.ModTime()))
	m.do("rm", f)
}

// logrotate rotates one file, or all with shared scripts: writers open theirs anew afterwards.
func (m *alike) logrotate() {
	if m.away && slices.Contains(slices.Collect(maps.Values(m.odd)), 2) {
		return // nobody looks for such a name
	}
	m.settled() // what was compressed before has been looked through
	files := slices.Sorted(maps.Keys(m.files))
	if m.r.IntN(2) == 0 {
		files = files[:1]
	}
	if m.away && m.old != "" && !m.seen && (m.forgets || m.cuts || slices.ContainsFunc(files, func(f string) bool { return !m.isTold(f) })) {
		return // a copy is known there by what was read alone
	}
	var rotated []string
	m.rotatedAt = time.Now()
	for _, f := range files {
		if m.away || m.compress == 1 { // if this one is deleted before a scan, the next may be a copy of it that was made before
			m.n++
			m.write(f, []string{fmt.Sprint("line ", m.n, " of a file that is not as short as to be like any other")})
		}
		to := m.shift(f)
		m.lays(to, m.files[f])
		delete(m.files, f)
		delete(m.unread, f)
		m.odd[f] = max(m.odd[f], 1)
		if m.copies {
			m.do("mv", f, f+".tmp")
			m.do("partial", f, "")
			m.do("cp", f+".tmp", to)
			m.do("rm", f+".tmp")
			continue
		}
		m.do("mv", f, to)
		m.do("partial", f, "")
		rotated = append(rotated, to)
	}
	for _, to := range rotated {
		if m.r.IntN(2) == 0 {
			m.late(to, m.own())
		}
	}
	for _, f := range files {
		m.begin(f)
		if m.compress == 1 {
			m.compressed(f, 0)
		}
	}
	m.look()
}

// shift makes room for the next rotated file, and returns its name.
func (m *alike) shift(f string) string {
	name := func(n int) string { return fmt.Sprintf("%s%s.%d%s", m.old, f, n+1, m.chain[f][n]) }
	if m.dated {
		if m.chain[f] = slices.Insert(m.chain[f], 0, fmt.Sprintf("-%d", 20260101+len(m.chain[f]))); m.compress == 2 && len(m.chain[f]) > 1 {
			m.compressed(f, 1)
		}
		return m.old + f + m.chain[f][0]
	}
	if m.compress == 2 && len(m.chain[f]) > 0 {
		m.compressed(f, 0)
	}
	for n := len(m.chain[f]) - 1; n >= 0; n-- {
		from, to := name(n), fmt.Sprintf("%s%s.%d%s", m.old, f, n+2, m.chain[f][n])
		m.lays(to, m.lies[from])
		delete(m.lies, from)
		m.do("mv", from, to)
	}
	m.chain[f] = slices.Insert(m.chain[f], 0, "")
	return m.old + f + ".1"
}

// compressed compresses the n-th of the files that were rotated from f.
func (m *alike) compressed(f string, n int) {
	from := m.old + f + m.chain[f][n]
	if !m.dated {
		from = fmt.Sprintf("%s%s.%d%s", m.old, f, n+1, m.chain[f][n])
	}
	if strings.HasSuffix(from, ".gz") {
		return
	}
	m.chain[f][n] += ".gz"
	m.lays(from+".gz", m.lies[from])
	delete(m.lies, from)
	for _, l := range m.lies[from+".gz"] {
		m.loose[l] = true // on a busy machine a little that is compressed at once comes twice now and then, and no line says so
	}
	m.packed = true
	if m.aged { // by its time alone a file that was made before the agent ran is told from a later one
		m.do("keep-time-gzip", from)
		return
	}
	m.do("gzip", from)
}

// cut takes the power away: what was not synced is lost, of the journal and of files.
func (m *alike) cut() {
	if !m.cuts || m.away {
		return
	}
	m.settled()
	must(m.t, m.j.Sync())
	read := m.r.IntN(2) == 0
	for _, f := range slices.Sorted(maps.Keys(m.files)) {
		lines := m.own()
		m.write(f, lines)
		m.unread[f] = lines // or it was read, and the journal knows nothing of it
	}
	if read {
		m.settled()
	}
	mode := []faultfs.Mode{faultfs.Drop, faultfs.Zero, faultfs.Random}[m.r.IntN(3)]
	m.boxed.note(fmt.Sprint("> power cut ", mode))
	m.crash(mode, m.r.Uint64())
	m.away = true
	clear(m.odd)
	m.outages++
	for _, f := range slices.Sorted(maps.Keys(m.files)) {
		for _, l := range m.files[f] {
			m.again[l] = true
		}
		if m.r.IntN(2) == 0 {
			m.lose(f, read)
		}
	}
}

// lose takes what was written last out of a file, or puts zeros in its place. Its writer goes on.
func (m *alike) lose(f string, read bool) {
	if m.padded[f] {
		return
	}
	was := text(m.files[f])
	keep := len(was) - min(m.r.IntN(200), len(was))
	m.do("truncate", f, fmt.Sprint(keep))
	whole := strings.LastIndex(was[:keep], "\n") + 1
	begun := was[whole:keep]
	if m.r.IntN(2) == 0 {
		m.do("pad", f, fmt.Sprint(len(was)-keep))
		m.padded[f] = true
		if begun != "" { // what is before a line is left out
			begun += strings.Repeat("\x00", len(was)-keep)
		}
	}
	kept := strings.Count(was[:whole], "\n")
	if !read {
		m.perhaps(m.files[f][kept:])
	}
	m.n++
	last := fmt.Sprintf("line %d written after the cut", m.n)
	m.do("append", f, last)
	m.files[f] = append(m.files[f][:kept], begun+last)
	m.unread[f] = append(m.unread[f], begun+last)
	m.holds(f, []string{begun + last})
	m.owed[begun+last]++
}
