package tail

import "kusto-agent/internal/record"

// facts are a record.FileInfo as it is kept of hundreds of thousands of generations.
type facts struct {
	Path, First string // of one string where they are the same
	Dev, Inode  uint64
	Birth       int64
	Handle      string // empty: there is none
	Size        int64
	Head        record.Head
	Done        bool
	*seldom     // never nil, never changed
}

// seldom are the facts that most files do not have.
type seldom struct {
	Encoding, Real string
	Old, Dated     int64
	Packed         record.Packed
}

// usual is what is seldom of all files that have nothing of it.
var usual seldom

// factsOf returns what is known of a file in a form that takes less memory, because it is kept of
// hundreds of thousands of files. Equal paths become one string, and all files without unusual
// facts share one value of these.
func factsOf(i record.FileInfo) facts {
	f := facts{Path: i.Path, First: i.First, Dev: i.Dev, Inode: i.Inode, Birth: i.Birth, Handle: string(i.Handle), Size: i.Size, Head: i.Head, Done: i.Done, seldom: &usual}
	if f.First == f.Path {
		f.First = f.Path // and the memory of the other is free
	}
	if s := (seldom{Encoding: i.Encoding, Real: i.Real, Old: i.Old, Dated: i.Dated, Packed: i.Packed}); s != usual {
		f.seldom = &s
	}
	return f
}

// whole returns the facts as a record.FileInfo again. The caller owns it.
func (f *facts) whole() record.FileInfo {
	return record.FileInfo{
		Path: f.Path, First: f.First, Dev: f.Dev, Inode: f.Inode, Birth: f.Birth, Handle: f.handle(), Size: f.Size, Head: f.Head, Done: f.Done,
		Encoding: f.Encoding, Real: f.Real, Old: f.Old, Dated: f.Dated, Packed: f.Packed,
	}
}

// handle returns the kernel's file handle, which identifies the inode and its generation; nil:
// there is none. The caller owns it.
func (f *facts) handle() []byte {
	if f.Handle == "" {
		return nil
	}
	return []byte(f.Handle)
}
