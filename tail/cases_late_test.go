package tail

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// lateCases are the cases of docs/cases.md from 86 on, by their numbers there, and
// the tests that show each: a script of testdata, or a test with its package.
var lateCases = map[int][]string{
	86:  {"script:086-deleted", "cmd/agent.TestDeletedUnread"},
	87:  {"script:087-deleted-unread", "script:087-held-until-safe", "cmd/agent.TestDeletedUnread", "tail.TestDeletedFilesAreReadAtTheStop"},
	88:  {"script:088-pinned", "script:088-under-the-cap", "script:088-nothing-pinned", "cmd/agent.TestAbandoned"},
	89:  {"script:089-recreated", "script:089-same-banner"},
	91:  {"tail.TestFileSystems", "cmd/agent.TestRecreatedWithoutHandles"},
	92:  {"script:092-deleted-written"},
	94:  {"script:094-links", "script:094-many-links"},
	95:  {"script:095-odd-links", "cmd/agent.TestOddFiles", "tail.TestProblems"},
	97:  {"script:097-hard-links", "script:094-links"},
	98:  {"script:098-same-banner", "script:089-same-banner"},
	100: {"script:100-copy", "tail.TestOnce"},
	101: {"script:101-replaced", "script:095-odd-links", "cmd/agent.TestOddFiles"},

	103: {"cmd/agent.TestKills", "cmd/agent.TestKillsWithFields", "cmd/agent.TestKillsWithAvro", "cmd/agent.TestParseKills"},
	104: {"script:104-restart-unsent", "script:087-deleted-unread", "cmd/agent.TestStopInAnOutage"},
	105: {"script:105-out-of-order", "script:105-moved", "script:105-copied", "script:105-rewritten", "journal.TestPositionIsTheUnbrokenPrefix"},
	106: {"script:106-refused-first", "script:106-skips-after-kill", "cmd/agent.TestRefusedRecordsStandAlone"},
	107: {"cmd/agent.TestKillsInAnOutage", "journal.TestInSpool"},
	108: {"journal.TestTornAtEveryByte", "journal.TestOneFlippedBit", "journal.TestDamageFallsBack", "journal.TestAllLostMeansReplay", "cmd/agent.TestDamagedJournal"},
	109: {"journal.TestTemporarySegment", "journal.TestEveryCrashIsExplained"},
	110: {"journal.TestFirstVersionIsRead", "journal.TestOtherVersions", "journal.TestNewerVersionIsRefused"},
	112: {"cmd/agent.TestSecondAgentOnStateDir", "cmd/agent.TestStateDirOfAnother"},
	113: {"cmd/agent.TestInputComesBack", "cmd/agent.TestInputIsAwayForARun"},
	115: {"script:115-forgotten", "journal.TestHistoryIsBounded"},
	116: {"script:116-folder-away", "cmd/agent.TestFolderIsShutForATime", "tail.TestUnmounted"},
	118: {"script:118-restored"},
	119: {"script:119-clock", "journal.TestClockJumps"},
	121: {"script:121-head-grows"},
	124: {"cmd/agent.TestRestartsWhileItRotates"},

	125: {"script:125-folders", "script:125-often"},
	126: {"script:125-folders"},
	127: {"script:127-renamed-in"},
	128: {"script:128-file-for-folder"},
	130: {"script:130-names", "cmd/agent.TestOddNames"},
	131: {"cmd/agent.TestUnreadableFile", "tail.TestPermission"},
	132: {"cmd/agent.TestFolderModes"},
	133: {"cmd/agent.TestReadErrors"},
	134: {"script:134-few-descriptors"},
	137: {"tail.TestMappedWriter", "tail.TestDirectWriter"},

	147: {"cmd/agent.TestMemoryInAnOutage", "cmd/agent.TestOutageOnFullStateDisk"},
	148: {"script:148-rotated-meanwhile", "cmd/agent.TestOutage"},
	151: {"script:151-paused"},
	152: {"tail.TestTurns", "cmd/agent.TestRateLimit"},
	154: {"cmd/agent.TestOwnLog", "tail.TestOwn", "tail.TestOwnSinceLately", "tail.TestAvoid"},
	155: {"cmd/agent.TestRateLimit"},

	157: {"tail.TestEventIsHeld", "tail.TestEventEndsInQuiet", "tail.TestMessagesAreJoined", "cmd/agent.TestParseKills"},
	158: {"tail.TestEventIsHeld", "cmd/agent.TestParseRotation"},
	160: {"tail.TestMessagesAreJoined", "tail.TestPartsThatCannotBeJoined", "cmd/agent.TestParseRotation"},
	161: {"format.TestLongMessages", "tail.TestLongMessage", "tail.TestPartsThatCannotBeJoined"},
	162: {"format.TestDelimited", "format.TestQuotedRow", "script:162-field-counts", "script:162-max-records"},
	163: {"script:163-header"},
	164: {"format.TestMultiJSON", "format.TestMultiJSONIsolates", "format.TestJSONLines"},

	166: {"tail.TestCopyUp"},
	167: {"tail.TestBindMount"},
	169: {"script:169-shorter", "journal.TestPowerCutNamesFiles"},
	170: {"systemd.TestUnderSystemd"},
	172: {"tail.TestModel"},
}

// TestLateCases: each test that the table names is there.
func TestLateCases(t *testing.T) {
	tests := make(map[string][]string) // by package
	for n, names := range lateCases {
		for _, name := range names {
			if script, ok := strings.CutPrefix(name, "script:"); ok {
				if _, err := os.Stat("testdata/" + script + ".txt"); err != nil {
					t.Errorf("case %d: %v", n, err)
				}
				continue
			}
			pkg, test, _ := strings.Cut(name, ".")
			if tests[pkg] == nil {
				tests[pkg] = testsIn(t, pkg)
			}
			if !slices.Contains(tests[pkg], test) {
				t.Errorf("case %d: there is no test %s", n, name)
			}
		}
	}
}

var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(t `)

// testsIn are the names of the tests of a package.
func testsIn(t *testing.T, pkg string) (all []string) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("../%s/*_test.go", pkg))
	must(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		for _, m := range testFunc.FindAllSubmatch(text, -1) {
			all = append(all, string(m[1]))
		}
	}
	return all
}
