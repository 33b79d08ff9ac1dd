package compare

import (
	"path/filepath"
	"slices"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/archive"
	"kusto-agent/tail/internal/identity"
	"kusto-agent/tail/internal/rotation"
)

// IsIn compares the content of a compressed file with what was read of the original. Unknown: no hash of it
// was taken at the offset that is needed. The place counts only for Prefix, Part and Ends.
func (o *Original) IsIn(x *archive.Facts) (identity.Content, Place) {
	at, mark := o.Position, o.Mark
	switch {
	case at == 0 || mark == 0: // both begin alike, and there is no hash of it to compare with
		if n := len(o.Ahead); at <= x.Size && (n == 0 || o.Ahead[n-1].End <= x.Size) {
			return identity.Holds, Place{}
		}
		return identity.Differs, Place{}
	case at < x.Size:
		return agreement(x, Place{at, mark}, identity.Holds), Place{}
	case at == x.Size:
		return agreement(x, Place{at, mark}, identity.Ends), Place{at, mark}
	case o.Truncated.IsZero():
		return identity.Differs, Place{}
	}
	return o.beginning(x) // it may be a copy that was made before the last records were written and the file was truncated
}

// beginning compares the content of a compressed file with the beginning of the original, which is longer, up to the
// last place of its trail that is in the file.
func (o *Original) beginning(x *archive.Facts) (identity.Content, Place) {
	for _, p := range slices.Backward(o.Trail) {
		switch {
		case p.Offset == x.Size:
			return agreement(x, p, identity.Prefix), p
		case p.Offset < x.Size:
			if end, ok := lateEnd(o.Late, o.Position, x.Size); ok && end.Mark == x.End && agreement(x, p, identity.Part) == identity.Part {
				return identity.Prefix, end
			}
			return agreement(x, p, identity.Part), p
		}
	}
	return identity.Differs, Place{}
}

// GoesOnAfter reports whether a compressed file seems to hold the beginning of the original, which goes on: it was
// compressed while somebody still wrote to it. That proves too little to leave the file out.
func (o *Original) GoesOnAfter(x *archive.Facts) bool {
	content, _ := o.beginning(x)
	return content.Agrees()
}

// agreement compares the hash of a compressed file at the offset of p with that of p.
func agreement(x *archive.Facts, p Place, agrees identity.Content) identity.Content {
	switch m, looked := x.Marks[p.Offset]; {
	case !looked:
		return identity.Unknown
	case m == p.Mark:
		return agrees
	}
	return identity.Differs
}

// IsNameOf reports whether rotation may have given a file this path: same folder, and a name that
// rotation.IsOf accepts.
func IsNameOf(path string, info record.FileInfo) bool {
	return slices.ContainsFunc(append(info.Paths(), info.First), func(was string) bool {
		return filepath.Dir(path) == filepath.Dir(was) && filepath.Base(path) != filepath.Base(was) && rotation.IsOf(filepath.Base(path), filepath.Base(was))
	})
}

// IsOfStem is IsNameOf for a file that may have been moved to another folder too.
func IsOfStem(path string, info record.FileInfo) bool {
	return slices.ContainsFunc(append(info.Paths(), info.First), func(was string) bool { return rotation.IsOf(filepath.Base(path), filepath.Base(was)) })
}
