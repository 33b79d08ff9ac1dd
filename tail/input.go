package tail

import (
	"time"

	"kusto-agent/internal/index"
	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/finder"
	"kusto-agent/tail/internal/inode"
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

// files is what an input knows of its files. It belongs to the goroutine that
// discovers, and what Tailer.mu guards is guarded by it.
type files struct {
	name string // of the input

	isNew    bool // no earlier run has seen it, and its files are looked for the first time
	noted    bool // the journal knows that it was seen
	unsought bool // files that were renamed in its absence are to be looked for

	known   *index.Index[record.File, generation] // every generation that is remembered
	byNode  nodes
	readers *index.Index[inode.Node, reader]
	unnamed map[record.FileID][]*generation // generations whose file is not known, see claim; guarded by Tailer.mu
	streams map[string]*stream              // of container logs, by where their files are written
	heads   heads
	suspect map[inode.Node]suspicion
	renewed map[inode.Node]*reader // in this scan, see readyCopiedUp; nil: not looked for
	paths   map[string]bool        // of known files, as of this scan; nil: not asked for

	unopened map[inode.Node]unopened // by the last scan
	folders  finder.Folders

	packed map[inode.Node]*packed // compressed files that are not being read
	behind map[inode.Node]stray   // compressed files that no pattern matches and that were rotated after a file that was read; guarded by Tailer.mu

	truncated []*generation // whose copies are to be looked for
	lost      []*generation // gone before they were read to their end; guarded by Tailer.mu
	rotated   []rotated     // beside which others may be
	matched   time.Time     // when a path matched last
}

// newFiles returns the state of an input of that name that has no files yet.
func newFiles(name string) *files {
	return &files{
		name: name,

		unsought: true,
		known:    newGenerations(),
		byNode:   newNodes(),
		readers:  newReaders(),
		unnamed:  make(map[record.FileID][]*generation),
		streams:  make(map[string]*stream),
		heads:    newHeads(),
		suspect:  make(map[inode.Node]suspicion),
		unopened: make(map[inode.Node]unopened),
		packed:   make(map[inode.Node]*packed),
		behind:   make(map[inode.Node]stray),
	}
}

func (in *input) file(id record.FileID, generation uint32) record.File {
	return record.File{Input: in.Name, ID: id, Generation: generation}
}
