package tail

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// earlyCases names the tests that show each case of docs/cases.md: a script of
// testdata, or a test by its package and name. Scripts run with events and by polling,
// and, where they stop the tailer, also with a kill in place of each stop.
var earlyCases = map[int][]string{
	1:  {"script:001-appends"},
	2:  {"script:002-start-at-end", "tail.TestStartAtEndOfUTF16", "tail.TestAvroStartAtEnd"},
	5:  {"script:005-missing-folder"},
	7:  {"script:007-empty-files"},
	8:  {"script:008-small"},
	9:  {"script:009-only-newlines", "script:007-empty-files", "format.TestTXT", "format.TestJSONLines", "format.TestDelimited"},
	10: {"script:041-hole", "internal/e2e.TestHolesAndRestarts"},
	11: {"script:011-many-lines", "script:011-byte-by-byte"},
	12: {"script:012-two-inputs"},
	13: {"config.TestOneFileOneRoute", "tail.TestRival", "script:094-two-inputs", "script:013-rewritten-to-the-same-size"},
	14: {"script:014-ignore-older"},
	15: {"script:014-ignore-older", "script:015-old-rotated"},
	16: {"script:014-ignore-older"},
	17: {"script:017-old-link"},

	18: {"script:018-partial"},
	19: {"script:018-partial", "internal/e2e.TestHolesAndRestarts"},
	20: {"script:020-partial-line-wait"},
	22: {"script:022-deleted-partial"},
	23: {"script:023-renamed-partial", "script:023-renamed-never-completed"},
	25: {"script:025-crlf", "format.TestTXT", "format.FuzzCuts"},
	27: {"script:027-bom"},
	28: {"format.TestEncodings", "format.TestDecode", "format.TestOffsetsOfEncodings"},
	29: {"format.FuzzShapes", "tail.TestForeignMark", "script:029-half-characters"},
	32: {"script:034-odd-text", "script:110-no-text", "format.TestJSONLines", "format.TestDelimited"},
	34: {"script:034-odd-text"},

	35: {"script:035-long", "internal/e2e.TestLongLine"},
	37: {"script:037-long-blocks", "script:041-hole", "internal/e2e.TestLongLine"},
	38: {"quarantine.TestDataComesBack"},
	39: {"script:035-long"},
	40: {"script:040-nuls", "script:040-filled-unread", "tail.TestWrittenAsMemory", "script:040-nuls-json", "format.TestNULs", "format.TestTornLines", "internal/e2e.TestHolesAndRestarts"},
	41: {"script:041-hole", "internal/e2e.TestHolesAndRestarts"},
	43: {"internal/e2e.TestBinaryFile"},

	44: {"script:044-rename-create"},
	45: {"script:045-rename-inside"},
	46: {"tail.TestIdleThenRenamed", "script:044-rename-create"},
	47: {"script:047-compressed-away"},
	48: {"script:048-rename-chain"},
	49: {"script:045-rename-inside"},
	50: {"script:048-rename-chain", "internal/e2e.TestOutage"},
	51: {"script:051-copied-to-olddir", "tail.TestRotateFast", "tail.TestRotatedBeforeSeen", "script:060-rotated-twice-between-looks", "internal/e2e.TestSelfRotating"},
	52: {"script:052-no-spam", "script:052-away"},
	53: {"script:053-create-over"},
	54: {"script:054-editor"},
	55: {"script:055-swap"},
	56: {"script:056-other-folder"},
	57: {"script:057-moved-across", "tail.TestMoveAcrossFileSystems"},
	58: {"script:058-moved-while-stopped"},
	59: {"script:059-copied-elsewhere", "script:059-copied-to-olddir", "script:059-rotated-while-stopped", "script:059-link", "script:059-linked-folder", "script:059-no-longer-matched", "internal/e2e.TestRotatedWhileNobodyLooked", "tail.TestFoundAndStopped", "tail.TestPackedAndKilled"},
	60: {"script:059-copied-and-compressed", "script:060-linked-folder", "script:060-dated-beside-another", "script:060-dated-and-known", "script:060-deploy-after-rotation", "script:060-rotated-twice-while-stopped", "script:060-dated-while-stopped", "script:060-compressed-between", "script:060-compressed-and-stopped-again", "script:060-rotated-twice-begins-like-another", "script:060-same-header-while-stopped", "script:060-short-copy-and-stopped", "script:060-no-siblings", "internal/e2e.TestHolesAndRestarts"},
	61: {"script:061-compressed-while-stopped", "script:061-excluded", "script:061-never", "internal/e2e.TestCompressedByLogrotate"},
	62: {"tail.TestRenameUnderTheEyes"},
	63: {"tail.TestAwayForAScan"},
	64: {"script:064-drained", "script:045-rename-inside"},
	65: {"internal/e2e.TestNginxRotated", "internal/e2e.TestNginxCopyTruncated", "internal/e2e.TestPackageLog", "internal/e2e.TestLogrotate", "internal/e2e.TestLogrotateCopies"},
	66: {"script:066-log4j", "script:066-python", "script:066-lumberjack", "script:066-logback", "internal/e2e.TestSelfRotating"},
	67: {"script:067-folder-rename"},

	68: {"script:068-truncate"},
	69: {"script:069-refill-same-size", "script:069-same-end"},
	70: {"script:070-refill-larger"},
	71: {"script:071-many-truncations", "tail.TestFiftyTruncations"},
	72: {"script:072-same-head"},
	73: {"script:073-refilled-alike"},
	74: {"script:074-copytruncate"},
	75: {"script:075-copytruncate-inside", "script:075-copytruncate-all-read", "script:075-copy-between-reads", "script:075-copy-between-reads-compressed", "script:075-copy-long-before-truncation", "tail/internal/recent.TestRing"},
	76: {"script:076-copied-over", "script:076-no-copy", "script:076-copy-outside", "script:076-copy-in-olddir", "script:076-compressed-copy-and-stopped", "script:076-truncated-unread", "script:076-copy-inside-unread", "script:076-another-with-the-header", "script:076-truncated-unread-no-copy", "script:076-truncated-unread-while-stopped"},
	77: {"tail.TestCopiedWithinATick", "script:077-little-was-read", "script:077-little-and-older-copy", "script:077-begins-like-one-truncated", "script:077-copy-of-a-dotfile", "script:077-copy-named-by-stem", "script:077-copytruncate-while-stopped", "script:077-copytruncate-after-kill", "script:077-copied-twice-while-stopped", "script:077-copied-to-olddir", "script:077-copied-twice-and-compressed", "script:077-copied-twice-all-read", "tail.TestCopiedTwiceBetweenLooks", "internal/e2e.TestLogrotateCopiesWhileItStandsStill"},
	79: {"script:068-truncate"},
	80: {"script:080-last-line-removed"},
	82: {"script:082-overwritten"},
	83: {"script:083-holes-punched", "script:083-collapsed"},
	84: {"script:084-truncated-unsent-and-stopped", "script:084-truncated-unsent-and-no-copy", "script:084-truncated-begun-and-stopped", "script:084-late-acknowledgement", "script:084-truncated-unsent"},
	85: {"script:085-size-lies"},
}

// TestCases: what the manual promises is shown by tests that are there.
func TestCases(t *testing.T) {
	t.Parallel()
	all := maps.Clone(earlyCases)
	maps.Copy(all, lateCases)
	checkCases(t, all, "cases.md")
}

// checkCases sees that a file of docs has a line for each case of a table, and for
// no other, and that all tests of the table exist.
func checkCases(t *testing.T, cases map[int][]string, name string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../docs", name))
	must(t, err)
	var told []int
	for _, m := range regexp.MustCompile(`(?m)^- \*\*(\d+)\*\* \S`).FindAllStringSubmatch(string(text), -1) {
		n, _ := strconv.Atoi(m[1])
		told = append(told, n)
	}
	if shown := slices.Sorted(maps.Keys(cases)); !slices.Equal(told, shown) {
		t.Errorf("docs/%s has the cases %v; shown are %v", name, told, shown)
	}
	tests := make(map[string][]string) // by package
	for n, all := range cases {
		if len(all) == 0 {
			t.Errorf("case %d is not shown", n)
		}
		for _, test := range all {
			if script, ok := strings.CutPrefix(test, "script:"); ok {
				if _, err := os.Stat("testdata/" + script + ".txt"); err != nil {
					t.Errorf("case %d: %v", n, err)
				}
				continue
			}
			room, function, _ := strings.Cut(test, ".")
			if tests[room] == nil {
				tests[room] = testsOf(t, room)
			}
			if !slices.Contains(tests[room], function) {
				t.Errorf("case %d: there is no %s", n, test)
			}
		}
	}
}

// testsOf are the tests of a package.
func testsOf(t *testing.T, room string) (names []string) {
	t.Helper()
	var files []string
	for _, dir := range []string{"..", "../internal", "internal"} {
		found, err := filepath.Glob(filepath.Join(dir, room, "*_test.go"))
		must(t, err)
		files = append(files, found...)
	}
	for _, file := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		must(t, err)
		for _, d := range tree.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && (strings.HasPrefix(f.Name.Name, "Test") || strings.HasPrefix(f.Name.Name, "Fuzz")) {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}
