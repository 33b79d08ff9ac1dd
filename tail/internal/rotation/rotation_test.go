package rotation

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestNames: the names to which a file may have been rotated.
func TestNames(t *testing.T) {
	f := func(g Gone, names map[string]bool) {
		t.Helper()
		is := g.Names()
		for name, want := range names {
			if is(name) != want {
				t.Errorf("%+v: %s: %v", g, name, !want)
			}
			if want && !strings.HasPrefix(name, g.Prefix()) {
				t.Errorf("%+v: %s does not begin with %q", g, name, g.Prefix())
			}
		}
	}
	f(Gone{Name: "a.log"}, map[string]bool{"a.log.1": true, "a.log-20260101": true, "a.log.2.gz": true, "a.log": false, "a.log.old": false, "b.log.1": false,
		"a-20260101.log": true, "a.2026-01-01.log.gz": true, "a-20260101-1767225600.log": true, "a-2.log": false, "a-2026.log": false,
		"a-20260101.txt": false, "a-b20260101.log": false, "b-20260101.log": false})
	f(Gone{Name: "a.log", Now: "a-2026.log"}, map[string]bool{"a-2027.log": true, "a-2026.log": false, "a-x.log": false, "b-2027.log": false, "a-2027.log.gz": true, "a.log": false})
	f(Gone{Name: "a.log", Now: "a-20260101.log"}, map[string]bool{"a-20260102.log": true, "a-2.log": false, "a-20260102-1767225600.log": false})
	f(Gone{Name: "a.log", Now: "a.log.9"}, map[string]bool{"a.log.10": true, "a.log.20260101": false})
	f(Gone{Name: "a.1", Now: "a.2"}, map[string]bool{"a.3": false}) // nothing but its own form
	f(Gone{Name: "a.log", Now: "a.log.2.gz"}, map[string]bool{"a.log.1": true})
	f(Gone{Name: "a.log", Now: "a.log.2"}, map[string]bool{"a.log.1.gz": true, "a.log.1.zst": true, "a.log.1.xz": false})
	f(Gone{Name: "current"}, map[string]bool{"@40000000692a1b2c0a1b2c3d.s": true, "@40000000692a1b2c0a1b2c3d.u": true, "@40000000692a1b2c.s": false, "state": false, "lock": false, "current": false})
	f(Gone{Name: "current", Now: "@40000000692a1b2c0a1b2c3d.s"}, map[string]bool{"@40000000692b1b2c0a1b2c3d.s": true, "current.1": false})
	f(Gone{Name: "current", Now: "current.1"}, map[string]bool{"current.2": true, "@40000000692b1b2c0a1b2c3d.s": false})
	f(Gone{Name: "app-1.log", Now: "app-1.log", Kept: true}, map[string]bool{"app-2.log": true, "app-1.log": false, "app-x.log": false, "web-2.log": false, "app-3.log.gz": true})
	f(Gone{Name: "app.log", Now: "app.log", Kept: true}, map[string]bool{"app-2.log": false, "app.log.1": false})
	f(Gone{Name: "app-2026-11-28.log", Now: "app-2026-11-28.log", Kept: true}, map[string]bool{"app-2026-11-28.log.1": true, "app-2026-11-28.log.2.gz": true, "app-2026-11-29.log": true,
		"app-2026-11-28.log": false, "app-2026-11-28.log.old": false, "app-x-2026-11-28.log.1": false})
	f(Gone{Name: "app-2026-11-28.log.2", Now: "app-2026-11-28.log.2", Kept: true}, map[string]bool{"app-2026-11-29.log": true, "app-2026-11-29.log.1.gz": true, "app-2026-11-28.log.2": false})
	f(Gone{Name: "app.log.20261128-101112.1", Now: "app.log.20261128-101112.1", Kept: true}, map[string]bool{"app.log.20261129-101112.23": true})
	dates := map[string]bool{"a-2026-11-27.log.gz": true, "a-2026-11-27.log": false, "a-2026-11-26.log.gz": false, "a-2026-11-26.log": false, "a-x-2026-11-27.log.gz": false, "b-2026-11-27.log.gz": false}
	f(Gone{Name: "a-2026-11-26.log", Now: "a-2026-11-26.log.gz"}, dates)
	f(Gone{Name: "a-2026-11-26.log"}, dates)
	f(Gone{Name: "a-1-2026-11-26.log", Lacks: func(name string) bool { return name == "a-1-2026-11-28.log" }}, map[string]bool{"a-1-2026-11-27.log.gz": false, "a-1-2026-11-28.log.gz": true, "a-2-2026-11-28.log.gz": false})
	f(Gone{Name: "a-2026-11-26.log"}, map[string]bool{"a-2026-11-26.log.1": true, "a-2026-11-26.log.1.gz": true})
	f(Gone{Name: "a-2026-11-26.log", Deleted: true}, map[string]bool{"a-2026-11-27.log.gz": false, "a-2026-11-26.log.1.gz": true})
	f(Gone{Name: "a-2026-11-26.log", Now: "a-2026-11-26.log.1"}, map[string]bool{"a-2026-11-27.log.gz": false, "a-2026-11-26.log.2.gz": true})
	f(Gone{Name: "a-26.log", Now: "a-26.log.gz"}, map[string]bool{"a-27.log.gz": false})
	f(Gone{Name: "a.log", Empty: true}, map[string]bool{"a.log.gz": true, "a.log": false, "a.log.1": true, "a.gz": false})
	f(Gone{Name: "a-2026-11-26.log", Empty: true}, map[string]bool{"a-2026-11-26.log.gz": true, "a-2026-11-27.log.gz": true, "a-2026-11-26.log": false})
	f(Gone{Name: "a.log", Replaced: true}, map[string]bool{"a.log.1": true, "a.log": true, "b.log": false})
}

// TestJudge has a test of each row of the table, and of each that comes before it.
func TestJudge(t *testing.T) {
	const second = 1_000_000_000
	g := Gone{Name: "a.log", Born: 100 * second, Seen: 200 * second}
	is := g.Names()
	b := Beside{Name: "a.log.1", Born: 300 * second, Written: 300 * second, Held: Unread}
	f := func(want Verdict, change func(*Gone, *Beside)) {
		t.Helper()
		g, b := g, b
		change(&g, &b)
		if got := g.Judge(b, is); got != want {
			t.Errorf("%+v beside %+v: it %v, want: it %v", b, g, got, want)
		}
	}
	f(Take, func(*Gone, *Beside) {})
	f(Compare, func(_ *Gone, b *Beside) { b.Held = NotCompared })
	f(Copied, func(_ *Gone, b *Beside) { b.Held = Read })
	f(Older, func(_ *Gone, b *Beside) { b.Born, b.Held = 100*second, Read })
	f(Older, func(_ *Gone, b *Beside) { b.Born = 198 * second }) // it was there when the gone one was seen
	f(Take, func(_ *Gone, b *Beside) { b.Born = 199 * second })  // or was it? the clock may lag
	f(Take, func(g *Gone, b *Beside) { b.Born, g.Seen = 101*second, 0 })
	f(Older, func(g *Gone, b *Beside) { b.Born, g.Seen = 0, 0 })                        // nobody knows when it was made
	f(Older, func(g *Gone, b *Beside) { g.Born, b.Born, g.Written = 0, 0, 300*second }) // no births: what was written to later was made later
	f(Take, func(g *Gone, b *Beside) { g.Born, b.Born, g.Written = 0, 0, 299*second })
	f(Older, func(g *Gone, b *Beside) { g.Born, b.Born, g.Written, g.Seen = 0, 0, 299*second, 310*second })
	f(Older, func(g *Gone, b *Beside) { b.Name, b.Written = "a.log.1.gz", 100*second })
	f(Take, func(g *Gone, b *Beside) { b.Name, b.Written = "a.log.1.gz", 101*second })
	f(Take, func(g *Gone, b *Beside) { b.Written = 50 * second }) // a plain one may be given any time
	dated := func(now, name string) func(*Gone, *Beside) {
		return func(g *Gone, b *Beside) { g.Now, b.Name = now, name; is = g.Names() }
	}
	f(Older, dated("a.log.20261129-120000", "a.log.20261129-115959.gz"))
	f(Take, dated("a.log.20261129-120000", "a.log.20261129-120001.gz"))
	f(Take, dated("a.log.20261129-120000", "a.log.20261129-115959")) // when a plain one was made is known
	f(Older, dated("a.log.20261129-120000.gz", "a.log.20261129-105959.gz"))
	f(Take, dated("a.log.20261129-120000.gz", "a.log.20261129-110001.gz"))
	f(Older, dated("a-2026-11-29T12-00-00.000.log", "a-2026-11-29T11-00-00.000.log.gz"))
	f(Older, dated("a.log-20261129-1795900000", "a.log-20261128-1795900001.gz"))
	f(Take, dated("a.log-20261129-1795900000", "a.log-20261129-1795800000.gz")) // no time of day
	f(Take, dated("a.log-29112026", "a.log-28112026.gz"))
	f(Take, dated("a.log-20261329", "a.log-20261128.gz"))
	f(Take, dated("a.log.2", "a.log.1.gz"))
	is = g.Names()
	f(Met, func(_ *Gone, b *Beside) { b.Known, b.Born = true, 0 })
	f(Left, func(_ *Gone, b *Beside) { b.Elsewhere, b.Known = true, true })
	f(OtherName, func(_ *Gone, b *Beside) { b.Name, b.Elsewhere = "a.log.bak", true })
}

// TestNumbersGoOn: a name that goes on with the number at the end of another is of another log, unless what goes
// on is a date.
func TestNumbersGoOn(t *testing.T) {
	for name, want := range map[string]bool{
		"app-1.log.1": true, "app-1-20261128.log": true, "app-120261128.log": true, "app-1.log.gz": true, "app-1_copy.log": true,
		"app-10.log.1": false, "app-10.log": false, "app-1000.log.gz": false,
	} {
		names := make(Names)
		names.Add("app-1.log")
		if IsOf(name, "app-1.log") != want || names.HasOf(name) != want {
			t.Errorf("%s of app-1.log: %v, in a set %v", name, !want, names.HasOf(name))
		}
	}
	if is := (Gone{Name: "app-1.log", Now: "app-1.log.1"}).Names(); is("app-10.log.1") || !is("app-1.log.2") {
		t.Error("what is beside app-1.log.1 is of another log")
	}
	if is := (Gone{Name: "worker1"}).Names(); is("worker10") || !is("worker1.1") || !is("worker120261128") {
		t.Error("what is beside worker1 is of another log")
	}
}

// TestBeginnings: what is sought by how names begin, or in a set of names, is what IsOf and Names accept.
func TestBeginnings(t *testing.T) {
	const stampedName = "@400000005f0e0c1d2a3b4c5d.s"
	olds := []string{"app.log", "app-1.log", "app-20260101.log", "app", "current", "current.log", ".app", stampedName, "b.log.gz"}
	names := []string{"app.log", "app.log.1", "app-1.log", "app-12.log.gz", "app-20260101.log.gz", "app-20260102.log.gz", "app-20260102.log",
		"app-20260101.log.1", "current", "current.1", "current.log.1", ".app.1", "@400000005f0e0c1d2a3b4c5e.u", stampedName, stampedName + ".gz", "b.log", "c"}
	set := make(Names)
	for _, old := range olds {
		one := make(Names)
		one.Add(old)
		set.Add(old)
		for _, name := range names {
			begins := slices.ContainsFunc(Beginnings(old), func(b string) bool { return strings.HasPrefix(name, b) })
			if IsOf(name, old) && !begins || IsOf(name, old) != one.HasOf(name) {
				t.Errorf("%s of %s: %v, it begins so: %v, it is in the set: %v", name, old, IsOf(name, old), begins, one.HasOf(name))
			}
			for _, now := range []string{"", old + ".gz", old + ".1"} {
				g := Gone{Name: old, Now: now, Lacks: func(name string) bool { return name != "app-20260103.log" }}
				form, isOther := g.OtherDates()
				if g.Names()(name) && form != "" && !strings.HasPrefix(name, Stem(old)) && !isOther(name) {
					t.Errorf("%s beside %s, which is now %q, is not found", name, old, now)
				}
			}
		}
	}
	for _, name := range names {
		if is := slices.ContainsFunc(olds, func(old string) bool { return IsOf(name, old) }); is != set.HasOf(name) {
			t.Errorf("%s is of one of them: %v, want %v", name, set.HasOf(name), is)
		}
	}
}

// TestTableIsAsDocumented: the rows of docs/design.md are the verdicts, in their order.
func TestTableIsAsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/design.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Rotated before it was opened\n")
	section, _, _ = strings.Cut(section, "\n## ")
	_, table, _ := strings.Cut(section, "|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")
	if len(rows) != len(verdictWords) {
		t.Fatalf("%d rows, want %d:\n%s", len(rows), len(verdictWords), table)
	}
	for v, w := range verdictWords {
		if want := "| " + w.of + " | " + w.is + " |"; rows[v] != want {
			t.Errorf("row %d is %q, want %q", v, rows[v], want)
		}
	}
}
