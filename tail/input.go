package tail

import (
	"time"

	"kusto-agent/internal/index"
	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/finder"
	"kusto-agent/tail/internal/inode"
	"kusto-agent/tail/internal/lineage"
	"kusto-agent/tail/internal/settings"
)

// input is an Input at work. Its settings do not change: when they are to be
// others, another input takes over its files.
type input struct {
	*settings.Compiled
	*files
	next *input // that has taken over; guarded by Tailer.mu
}

// newInput checks an input and compiles its settings. It opens none of the files that the patterns
// match. The error names the input.
func newInput(in Input) (*input, error) {
	c, err := settings.Compile(in)
	if err != nil {
		return nil, err
	}
	return &input{Compiled: c, files: newFiles(in.Name)}, nil
}

// files is what an input knows of its files. It is guarded by Tailer.mu, but for scan and folders, which
// is for any goroutine.
type files struct {
	name    string // of the input
	scan    scanned
	folders finder.Folders

	known   generations
	byNode  nodes
	heads   heads
	starts  map[*generation][]byte          // what files begin with that this scan has found as they were read, if it had to look
	unnamed map[record.FileID][]*generation // generations whose file is not known, see claim
	readers *index.Index[inode.Node, reader]
	streams map[string]*stream // of container logs, by where their files are written

	suspect map[inode.Node]suspicion      // files that may be copies
	packed  map[inode.Node]*packed        // compressed files that are not being read
	untold  map[inode.Node]lineage.Packed // those of container logs that are gone

	unsought  bool          // files that were renamed in its absence are to be looked for
	truncated []*generation // whose copies are to be looked for
	lost      []*generation // gone before they were read to their end
	rotated   []rotated     // beside which others may be
}

// scanned is what only the goroutine that discovers has to know of an input.
type scanned struct {
	isNew    bool                    // no earlier run has seen it, and its files are looked for the first time
	noted    bool                    // the journal knows that it was seen
	matched  time.Time               // when a path matched last
	unopened map[inode.Node]unopened // by the last scan
	rotated  []rotated               // beside which the next scan looks again
	pass
}

// newFiles returns the state of an input of that name that has no files yet.
func newFiles(name string) *files {
	return &files{
		name:     name,
		scan:     scanned{unopened: make(map[inode.Node]unopened)},
		unsought: true,
		known:    newGenerations(),
		byNode:   newNodes(),
		heads:    newHeads(),
		unnamed:  make(map[record.FileID][]*generation),
		readers:  newReaders(),
		streams:  make(map[string]*stream),
		suspect:  make(map[inode.Node]suspicion),
		packed:   make(map[inode.Node]*packed),
		untold:   make(map[inode.Node]lineage.Packed),
	}
}

func (in *input) file(id record.FileID, generation uint32) record.File {
	return record.File{Input: in.Name, ID: id, Generation: generation}
}
