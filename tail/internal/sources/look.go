package sources

import (
	"path/filepath"
	"slices"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/finder"
	"kusto-agent/tail/internal/fingerprint"
	"kusto-agent/tail/internal/inode"
	"kusto-agent/tail/internal/rotation"
)

// Look is what was seen of folders when the first of many files was looked for, for those that are looked for
// after it: a folder is listed once, and a file in it opened once, however many may be there. It belongs to one
// goroutine, and is for a short time.
type Look struct {
	*finder.Walk
	matched map[*finder.Spec]*pool
	beside  map[[2]string]*pool
	asked   map[Question][]finder.Entry
}

// Question is what was asked of all names in a folder.
type Question struct {
	Folder, Home, Form string
	Replaced           bool
}

// NewLook returns a look at folders that has seen none yet.
func NewLook() *Look {
	return &Look{Walk: finder.NewLook(), matched: make(map[*finder.Spec]*pool), beside: make(map[[2]string]*pool), asked: make(map[Question][]finder.Entry)}
}

// few is how many files cost no more to be compared again than to be found by what they hold.
const few = 8

// pool is files among which many are looked for. What it returns has to be compared: all may be in it where
// they are few.
type pool struct {
	paths []string
	seen  []seen // of each path; nil: none was opened yet
}

// seen is what finds a file among others. It is small, since there may be hundreds of thousands.
type seen struct {
	inode uint64
	heads [len(fingerprint.HeadLens)]uint64 // 0: it is shorter, or has none of this length
}

// matches returns the files that a spec matches.
func (l *Look) matches(s *finder.Spec) *pool {
	p := l.matched[s]
	if p == nil {
		p = new(pool)
		for found := range finder.NewLook().Match(s) {
			p.paths = append(p.paths, found.Path())
		}
		l.matched[s] = p
	}
	return p
}

// named returns the regular files in a folder that have a name which rotation.IsOf accepts for one that was
// called old.
func (l *Look) named(folder, old string) *pool {
	key := [2]string{folder, rotation.Stem(old)}
	if old == "current" {
		key[1] += "/" // no other name with this stem has the names of such files
	}
	if p := l.beside[key]; p != nil {
		return p
	}
	p := new(pool)
	for _, begins := range rotation.Beginnings(old) {
		for _, e := range l.Beginning(folder, begins) {
			if e.Type.IsRegular() && rotation.IsOf(e.Name, old) {
				p.paths = append(p.paths, filepath.Join(folder, e.Name))
			}
		}
	}
	if len(p.paths) > few { // else it costs little to find them again
		l.beside[key] = p
	}
	return p
}

// which returns those that is accepts, each of which was opened once.
func (p *pool) which(is func(s *seen) bool) (found []string) {
	if len(p.paths) <= few {
		return p.paths
	}
	if p.seen == nil {
		p.seen = make([]seen, len(p.paths))
		for i, path := range p.paths {
			p.seen[i] = seenAt(path)
		}
	}
	for i := range p.seen {
		if is(&p.seen[i]) {
			found = append(found, p.paths[i])
		}
	}
	return found
}

// seenAt looks at a file. One that cannot be opened is like none.
func seenAt(path string) (s seen) {
	f, st, err := inode.Open(path)
	if err != nil {
		return s
	}
	defer f.Close()
	s.inode = st.Ino
	start := fingerprint.Start(f, int64(fingerprint.HeadLens[0])) // whatever size it tells, which may be old
	for _, h := range fingerprint.HeadsOf(start) {
		s.heads[slices.Index(fingerprint.HeadLens[:], h.Len)] = h.Sum
	}
	return s
}

// withInode returns those that may have an inode.
func (p *pool) withInode(ino uint64) []string {
	return p.which(func(s *seen) bool { return s.inode == ino })
}

// beginning returns those that may begin with the content whose head is h.
func (p *pool) beginning(h record.Head) []string {
	i := slices.Index(fingerprint.HeadLens[:], h.Len)
	if i < 0 {
		return p.paths
	}
	return p.which(func(s *seen) bool { return s.heads[i] == h.Sum })
}

// Named returns the paths of the regular files in a folder that have a name which rotation.IsOf accepts for
// one that was called old, and that may begin with the content whose head is h.
func (l *Look) Named(folder, old string, h record.Head) []string {
	return l.named(folder, old).beginning(h)
}

// Which returns the entries of which is is true. It asks once for all files of which the question is the same.
func (l *Look) Which(q Question, entries []finder.Entry, is func(name string) bool) []finder.Entry {
	found, ok := l.asked[q]
	if !ok {
		for _, e := range entries {
			if is(e.Name) {
				found = append(found, e)
			}
		}
		l.asked[q] = found
	}
	return found
}
