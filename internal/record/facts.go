package record

import "encoding/binary"

// Facts are a FileInfo in one string, as it is kept of hundreds of thousands of files: it takes
// less memory, never changes, and those who know the same file share it. Facts are equal where the
// infos are. The empty string is the zero FileInfo.
type Facts string

// Which members follow the path, by bits.
const (
	isDone    = 1 << iota // Done is set
	hasFirst              // First is another path than Path
	hasHandle             // Handle is not empty
	hasRare               // Encoding, Old, Real, Dated, Doubted, Lost or Packed is not zero
	isCut                 // Packed.Cut is set
	isTold                // Told is set
	hasSeen               // Seen is not zero
)

// rare are the members of an info that those of most files do not have.
func (i FileInfo) rare() FileInfo {
	return FileInfo{Encoding: i.Encoding, Old: i.Old, Real: i.Real, Dated: i.Dated, Doubted: i.Doubted, Lost: i.Lost, Packed: i.Packed}
}

// Facts returns the info as Facts.
func (i FileInfo) Facts() Facts {
	if i == (FileInfo{}) {
		return ""
	}
	flag := func(is bool, bit byte) byte {
		if is {
			return bit
		}
		return 0
	}
	flags := flag(i.Done, isDone) | flag(i.First != i.Path, hasFirst) | flag(i.Handle != "", hasHandle) | flag(i.Packed.Cut, isCut) | flag(i.Told, isTold) | flag(i.Seen != 0, hasSeen)
	if i.rare() != (FileInfo{}) {
		flags |= hasRare
	}
	b := make([]byte, 0, 256) // on the stack, unless the paths are long
	text := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	b = binary.AppendUvarint(b, i.Dev)
	b = binary.AppendUvarint(b, i.Inode)
	b = binary.AppendVarint(b, i.Birth)
	b = binary.AppendUvarint(b, uint64(i.Head.Len))
	b = binary.LittleEndian.AppendUint64(b, i.Head.Sum)
	b = binary.AppendVarint(b, i.Size)
	b = append(b, flags)
	text(i.Path)
	if flags&hasFirst != 0 {
		text(i.First)
	}
	if flags&hasHandle != 0 {
		text(i.Handle)
	}
	if flags&hasSeen != 0 {
		b = binary.AppendVarint(b, i.Seen)
	}
	if flags&hasRare != 0 {
		text(i.Encoding)
		text(i.Real)
		b = binary.AppendVarint(b, i.Old)
		b = binary.AppendVarint(b, i.Dated)
		b = binary.AppendVarint(b, i.Doubted)
		b = binary.AppendVarint(b, i.Lost)
		b = binary.AppendVarint(b, i.Packed.Size)
		b = binary.AppendVarint(b, i.Packed.Mtime)
	}
	return Facts(b)
}

// Info returns the info. Its strings share the memory of f.
func (f Facts) Info() (i FileInfo) {
	if f == "" {
		return i
	}
	i.Dev, i.Inode, i.Birth, i.Head = f.fixed()
	i.Size = f.int()
	flags := f[0]
	f = f[1:]
	i.Path = f.text()
	i.First = i.Path
	if flags&hasFirst != 0 {
		i.First = f.text()
	}
	if flags&hasHandle != 0 {
		i.Handle = f.text()
	}
	if flags&hasSeen != 0 {
		i.Seen = f.int()
	}
	if flags&hasRare != 0 {
		i.Encoding, i.Real = f.text(), f.text()
		i.Old, i.Dated, i.Doubted, i.Lost = f.int(), f.int(), f.int(), f.int()
		i.Packed.Size, i.Packed.Mtime = f.int(), f.int()
	}
	i.Done, i.Packed.Cut, i.Told = flags&isDone != 0, flags&isCut != 0, flags&isTold != 0
	return i
}

// Inode returns device, inode and time of birth of the file.
func (f Facts) Inode() (dev, inode uint64, birth int64) {
	if f == "" {
		return 0, 0, 0
	}
	return f.uint(), f.uint(), f.int()
}

// Head returns the fingerprint of the file's beginning.
func (f Facts) Head() (h Head) {
	if f != "" {
		_, _, _, h = f.fixed()
	}
	return h
}

// fixed takes the members before the size.
func (f *Facts) fixed() (dev, inode uint64, birth int64, h Head) {
	dev, inode, birth = f.uint(), f.uint(), f.int()
	h.Len = int(f.uint())
	for n := range 8 {
		h.Sum |= uint64((*f)[n]) << (8 * n)
	}
	*f = (*f)[8:]
	return dev, inode, birth, h
}

// uint takes a number. Facts are made by FileInfo.Facts alone, so what is taken is there.
func (f *Facts) uint() (v uint64) {
	for n := 0; ; n++ {
		b := (*f)[n]
		v |= uint64(b&0x7f) << (7 * n)
		if b < 0x80 {
			*f = (*f)[n+1:]
			return v
		}
	}
}

func (f *Facts) int() int64 {
	v := f.uint()
	return int64(v>>1) ^ -int64(v&1)
}

func (f *Facts) text() string {
	n := f.uint()
	s := (*f)[:n]
	*f = (*f)[n:]
	return string(s)
}
