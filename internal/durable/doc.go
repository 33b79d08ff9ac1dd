// Package durable is the one place that knows how bytes survive a crash: what
// it reported as synced is there after a power cut, and what is not there is
// told as lost, never invented.
//
// A framed log is a file, a segment, that is written once from front to back
// and never reused:
//
//	segment header, 64 bytes: magic u32 | kind 4 bytes | major u16 | minor u16 |
//	    header size u32 | seq u64 | agent 16 bytes | first record id u64 |
//	    created, ns since 1970, i64 | room, KiB, u32 | crc32c u32
//	frame, aligned to 8 bytes:
//	    magic u32 | type u8 | flags u8 | header size u16 | meta size u32 |
//	    body size u32 | record id u64 | record count u32 | synced up to u64 |
//	    crc32c u32
//	    meta | crc32c u32 | body | crc32c u32 | zeros up to the alignment
//
// All numbers are little-endian. The magic of a frame is not zero and a zero
// there is the end of the preallocated space: the CRC32C of nothing is zero, so
// a page of zeros must not pass for a frame. The header's checksum also covers
// the segment's seq and the frame's offset, so that neither a stale frame nor
// a copy of one inside some other frame's bytes is ever taken for real. Record
// ids advance by the record count: a gap is the exact number lost.
//
// "Synced up to" is how much of the segment was known durable when the frame
// was written. It tells the two reasons for an unreadable frame apart: before
// the last such offset the disk lost what it had promised (damage); at or after
// it a write was under way when the machine stopped (a torn tail), and nobody
// relied on it yet.
package durable
