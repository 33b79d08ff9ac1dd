package finder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"kusto-agent/tail/internal/inode"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
)

// Listener is told what events say, in their order, by the goroutine of Watcher.Loop. Each event is a hint:
// one that is lost costs time, and data only of a file that was made and renamed away before anybody looked.
// The listener does not keep the slice.
type Listener interface{ Heard([]Event) }

// Event is what the kernel says of a path.
type Event struct {
	What What
	Path string // Changed: empty
	From string // Renamed: the path before
}

// What happened, as far as an event tells.
type What uint8

// What an event says.
const (
	Written  What = iota // the file was written to
	Appeared             // there is a new name
	Renamed              // the file has the name since, and had another
	Changed              // names have changed, and are to be looked at
)

// Watcher hears of changes in folders. The kernel watches folders, not paths: where a
// link leads elsewhere, or a folder above has another name, the folder that is at the
// path by then is watched instead. Its methods are safe for concurrent use, but for Close.
type Watcher struct {
	to     Listener
	logger *slog.Logger
	made   chan struct{} // closed when there is fs
	news   chan struct{} // a name above a folder has changed
	every  atomic.Int64  // ns; set by SetPause

	heard []Event     // not told yet; of the goroutine of Loop
	deaf  atomic.Bool // the goroutine of Loop updates the watches, and hears nothing meanwhile

	now atomic.Pointer[view] // never nil; replaced only by publish

	mu    sync.Mutex // held by whoever changes the watches, from now.Load to the last publish
	fs    *notifier  // nil: nothing is to be watched yet, or the kernel gives none
	above *above     // nil: as fs, or the kernel gives none for it
}

// view says what is watched. One that is published is never changed, nor are its maps: a change
// makes new ones.
type view struct {
	wanted map[string]bool       // paths of the folders to be watched
	at     map[string]inode.Node // what these led to
	on     map[inode.Node]string // folders that are watched, each by one of its paths
	also   map[string][]string   // by such a path: the other paths that lead to the folder
	lost   time.Time             // when events were last lost; zero: they are heard
	ill    *illness              // nil: the kernel refuses nothing
}

// isOn reports whether the folder at a path is watched.
func (v *view) isOn(dir string) bool {
	n, ok := v.at[dir]
	return ok && v.on[n] != ""
}

// illness is why events do not tell of everything: polling makes up for it.
type illness struct {
	what, fix string
	err       error
}

// NewWatcher returns a watcher of no folders. Close it in the end.
func NewWatcher(to Listener, logger *slog.Logger) *Watcher {
	w := &Watcher{to: to, logger: logger, made: make(chan struct{}), news: make(chan struct{}, 1)}
	w.now.Store(&view{on: make(map[inode.Node]string)})
	w.SetPause(LookFast)
	return w
}

// Close releases the kernel's watches. It takes no lock: it is called after Loop has returned and
// after the last call of Update and Also, as Tailer.Run does, and nobody else uses fs and above.
func (w *Watcher) Close() {
	if w.fs != nil {
		w.fs.close()
	}
	if w.above != nil {
		w.above.close()
	}
}

// Covers reports whether events report changes of the file at a path. It never waits: while the
// watches are being updated, it returns true only for folders that were watched before, and for none
// if nobody hears events until that is done.
func (w *Watcher) Covers(path string) bool {
	v := w.now.Load()
	return v.lost.IsZero() && v.isOn(filepath.Dir(path)) && !w.deaf.Load()
}

// Healthy reports whether events report every new name. A folder may have no watch for other reasons
// than an illness: it is on a remote file system, say.
func (w *Watcher) Healthy() bool {
	v := w.now.Load()
	for dir := range v.wanted {
		if !v.isOn(dir) {
			return false
		}
	}
	return v.ill == nil
}

// Ill returns why events do not report every change, and a fix; both are empty if they do.
func (w *Watcher) Ill() (why, fix string) {
	ill := w.now.Load().ill
	if ill == nil {
		return "", ""
	}
	return fmt.Sprintf("%s: %v", ill.what, ill.err), ill.fix
}

// Update watches exactly these folders; the watcher owns the map from now on. It returns whether
// some are new: they have to be scanned for earlier changes.
func (w *Watcher) Update(folders map[string]bool) (added bool) { return w.watch(folders, true) }

// Also watches these folders in addition, until the next Update. It returns whether some are new,
// so that they have to be scanned for earlier changes.
func (w *Watcher) Also(folders map[string]bool) (added bool) { return w.watch(folders, false) }

// watch watches these folders: only these, or in addition to those before. It also logs when the
// watching becomes incomplete, because the kernel refuses a watch, or complete again. The latter is
// said of all folders of a scan only, and not while events were lost a short time ago.
func (w *Watcher) watch(folders map[string]bool, only bool) (added bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := *w.now.Load()
	if !only {
		folders = maps.Clone(folders)
		maps.Copy(folders, v.wanted)
		if len(folders) == len(v.wanted) {
			return false
		}
	}
	v.wanted = folders
	w.publish(v) // before the folders are looked at: see refresh
	ill := w.open(len(folders) > 0)
	if w.fs != nil {
		added, ill = w.follow(&v)
	}
	if only && time.Since(v.lost) >= scanHeard { // not sooner: repeated losses would be logged again and again
		v.lost = time.Time{}
	}
	if ill != nil || only && v.lost.IsZero() { // else what was the reason stays it
		v.ill = ill
	}
	w.publish(v)
	return added
}

// publish makes v what is watched, for all to see. It logs, once, that events are missing, and that
// they work again. The caller holds mu.
func (w *Watcher) publish(v view) {
	was, ill := w.now.Swap(&v).ill, v.ill
	switch {
	case ill != nil && (was == nil || was.what != ill.what):
		w.logger.Warn(ill.what, "err", ill.err, "fix", ill.fix)
	case ill == nil && was != nil:
		w.logger.Info("file change notifications work again, files are no longer polled")
	}
}

// open creates the inotify instances when there is something to watch (wanted). The result says why
// the kernel gives none; nil: there are some, or none are needed. The caller holds mu.
func (w *Watcher) open(wanted bool) *illness {
	if w.fs != nil || !wanted {
		return nil
	}
	fs, err := newNotifier()
	if err != nil {
		return &illness{"file events are not available, polling instead", "raise fs.inotify.max_user_instances if polling costs too much", err}
	}
	w.fs = fs
	w.above, _ = newAbove(w.news) // without it, changes of links and parent folders are found by scans
	close(w.made)
	return nil
}

// follow sets watches on the wanted folders of v, and on the links and folders in the paths to them,
// as they are now, and notes them in v, which the caller publishes. added says that a folder was not
// watched before, so that what happened in it until now is unknown. ill is the first watch that the
// kernel refused. The caller holds mu.
func (w *Watcher) follow(v *view) (added bool, ill *illness) {
	for range mostHops {
		some, refused := w.followOnce(v)
		added, ill = added || some, cmp.Or(ill, refused)
		// Names that are watched only now may have changed before, so the paths are looked at again.
		if w.above == nil || !w.above.follow(v.wanted, v.isOn) {
			break
		}
	}
	return added, ill
}

// followOnce is one round of follow. added says that a folder is watched that was not, or another
// one at its path. ill says why a watch was refused for lack of resources. The caller holds mu.
func (w *Watcher) followOnce(v *view) (added bool, ill *illness) {
	// Looked at before they are watched: the next round finds a folder that is replaced in between.
	at := make(map[string]inode.Node, len(v.wanted))
	for dir := range v.wanted {
		if e, err := inode.At(dir); err == nil && e.IsDir() && (v.on[e.Node] != "" || !isRemote(dir)) {
			at[dir] = e.Node
		}
	}
	was := *v
	remove, add, also := plan(was.on, at)
	v.at, v.also, v.on = at, also, maps.Clone(was.on)
	for _, n := range remove {
		delete(v.on, n)
	}
	// Before the watches change: none is taken for set that is not, and the first event of a new one
	// finds all paths that lead to its folder.
	w.publish(*v)
	for _, n := range remove {
		w.fs.remove(was.on[n])
	}
	v.on = maps.Clone(v.on)
	for n, dir := range add {
		err := w.fs.add(dir)
		if err == nil {
			v.on[n] = dir
			continue
		}
		if isNoRoom(err) {
			ill = &illness{"some folders cannot be watched, polling those", "raise fs.inotify.max_user_watches if polling costs too much", err}
			break
		}
	}
	for dir, n := range at {
		if led, ok := was.at[dir]; v.on[n] != "" && (!ok || led != n) {
			added = true
		}
	}
	for n := range add {
		added = added || v.on[n] != ""
	}
	return added, ill
}

// isNoRoom reports whether the kernel has no room for another watch.
func isNoRoom(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENOMEM)
}

// plan decides which folders are no longer watched and which are from now on, by which path. on has
// the path by which each watched folder is watched; at has the folder to which each wanted path
// leads. If several paths lead to one folder, it is watched by one of them; also has the others.
func plan(on map[inode.Node]string, at map[string]inode.Node) (remove []inode.Node, add map[inode.Node]string, also map[string][]string) {
	add = make(map[inode.Node]string)
	by := make(map[inode.Node]string, len(at)) // the path that it is watched by
	for n, dir := range on {
		if now, ok := at[dir]; ok && now == n {
			by[n] = dir
		} else {
			remove = append(remove, n)
		}
	}
	for dir, n := range at {
		if stays := on[n]; stays != "" && at[stays] == n {
			continue
		}
		if was := by[n]; was == "" || dir < was {
			by[n], add[n] = dir, dir
		}
	}
	for dir, n := range at {
		if by[n] != dir {
			if also == nil {
				also = make(map[string][]string)
			}
			also[by[n]] = append(also[by[n]], dir)
		}
	}
	return remove, add, also
}

// refresh updates the watches after something has happened to a folder that is to be watched, or to
// a name above one (dir is empty). gone says that the folder was deleted or renamed, so that the
// kernel watches it no longer. For another path it returns without waiting: if the folder there
// becomes one to be watched just now, it is looked at only after that was published.
func (w *Watcher) refresh(dir string, gone bool) {
	if dir != "" && !w.now.Load().wanted[dir] {
		return
	}
	defer w.deafen()()
	w.mu.Lock()
	defer w.mu.Unlock()
	v := *w.now.Load()
	if n, ok := v.at[dir]; gone && ok && v.on[n] == dir {
		v.on = maps.Clone(v.on)
		delete(v.on, n)
		w.publish(v)
		w.fs.remove(dir) // it may be there by another path
	}
	_, ill := w.follow(&v)
	v.ill = cmp.Or(ill, v.ill)
	w.publish(v)
}

// overflow notes that the kernel has dropped events: files are polled until no event was
// lost for a while. All watches are set anew, since an event that says that one has ended may be
// among the dropped ones.
func (w *Watcher) overflow(err error) {
	defer w.deafen()()
	w.mu.Lock()
	defer w.mu.Unlock()
	v := *w.now.Load()
	v.lost = time.Now()
	w.follow(&v) // files are polled for a while, whether the kernel refuses a watch or not
	v.on = maps.Clone(v.on)
	for n, dir := range v.on { // one that there is stays as it is
		if w.fs.add(dir) != nil {
			delete(v.on, n)
		}
	}
	v.ill = cmp.Or(v.ill, &illness{"file events were lost, checking all files and polling for a while", "nothing, no record is lost; if this happens again, raise fs.inotify.max_queued_events", err})
	w.publish(v)
}

// deafen tells what was heard, before the goroutine of Loop waits for others who change the watches, or
// looks at folders itself: either takes long where a file system does not answer. Until end is called
// files are polled.
func (w *Watcher) deafen() (end func()) {
	w.deaf.Store(true)
	w.tell()
	return func() { w.deaf.Store(false) }
}

// Loop passes events to the listener until ctx ends. After a write it rests for a moment, so that
// the events of a busy file gather in the kernel and wake the process only once. An event that has
// gathered together with others that were just heard begins no further rest.
func (w *Watcher) Loop(ctx context.Context) {
	select {
	case <-w.made:
	case <-ctx.Done():
		return
	}
	var rested, last time.Time // the end of the last rest, and the last event
	for {
		wrote := false
		w.fs.arm()
		select {
		case <-ctx.Done():
			return
		case <-w.news:
			w.hearNews()
		case err := <-w.fs.failed:
			w.hearError(err)
		case e := <-w.fs.events():
			now := time.Now()
			w.hearQuiet(e)
			wrote = e.Has(fsnotify.Write) && (now.Sub(last) > gathered || now.Sub(rested) > LookFast)
			last = now
		case <-w.fs.ready():
			wrote = w.hearGathered()
		}
		w.tell()
		for wrote && w.rest(ctx) {
			wrote = w.hearGathered()
			w.tell()
			rested = time.Now()
			last = rested
		}
	}
}

// hearNews updates the watches after a name above a folder has changed.
func (w *Watcher) hearNews() {
	w.refresh("", false)
	w.hear(Event{What: Changed})
}

// hearError handles an error of hearing events.
func (w *Watcher) hearError(err error) {
	if errors.Is(err, fsnotify.ErrEventOverflow) || errors.Is(err, errOverflow) {
		w.overflow(err)
	}
	w.hear(Event{What: Changed})
}

// hearQuiet hears what an event of fsnotify says, and counts it if it is about a write.
func (w *Watcher) hearQuiet(e fsnotify.Event) {
	w.translate(meaningOf(e))
	if e.Has(fsnotify.Write) {
		w.fs.writes++
	}
}

// gathered is how close an event follows a rest, or another event, that had gathered in the
// kernel with it. No timer says when the last of them is heard: that would be one more thing
// to wake up for.
const gathered = time.Millisecond

// SetPause sets how long Loop rests after a write, so that events gather: a program that writes goes on
// writing, and to be woken for every event costs more than to look at the file. A rename among the
// events is reported at most this much later.
func (w *Watcher) SetPause(every time.Duration) { w.every.Store(int64(every)) }

// rest waits for the time that SetPause has set, so that events gather in the kernel. It returns false
// if ctx has ended.
func (w *Watcher) rest(ctx context.Context) bool {
	select {
	case <-time.After(time.Duration(w.every.Load())):
		return true
	case <-ctx.Done():
		return false
	}
}

// hearGathered takes all events that have gathered during a rest. It returns true, so that the
// next rest begins at once, if a file was written to, and the events of fsnotify were few. Then the next event
// of a file that is written to all the time wakes nobody up.
func (w *Watcher) hearGathered() (wrote bool) {
	select {
	case <-w.news: // Loop may not look for long
		w.hearNews()
	default:
	}
	err := w.fs.read(func(e raw) {
		w.translate(e)
		wrote = wrote || e.has(unix.IN_MODIFY)
	})
	if err != nil {
		w.hearError(err)
	}
	heard := 0
	for yielded := 0; yielded < mostYields; {
		select {
		case e := <-w.fs.events():
			w.hearQuiet(e)
			wrote, heard, yielded = wrote || e.Has(fsnotify.Write), heard+1, 0
		case err := <-w.fs.failed: // heard here too, since Loop may not look for long
			w.hearError(err)
			yielded++
		default:
			runtime.Gosched()
			yielded++
		}
	}
	if now := time.Now(); w.fs.mayHandOver(now) {
		end := w.deafen()
		if w.mu.TryLock() { // else at the next one
			w.fs.handOver(now, maps.Values(w.now.Load().on))
			w.mu.Unlock()
		}
		end()
	}
	return wrote && heard <= fewEvents
}

// fsnotify hands over one event at a time and then reads more of them: it gets the processor
// so often before there are taken to be no more. That may be wrong, and where many files are
// written to the next event is waited for.
const (
	mostYields = 4
	fewEvents  = 8
)

// translate hears what an event of the kernel says, under each path that leads to the file. If a watched
// folder itself was created, deleted or renamed, it updates the watches.
func (w *Watcher) translate(e raw) {
	paths := w.pathsOf(e.path)
	switch {
	case e.has(unix.IN_MODIFY):
		for _, path := range paths {
			w.hear(Event{What: Written, Path: path})
		}
		return
	case e.has(unix.IN_CREATE | unix.IN_MOVED_TO):
		for i, path := range paths {
			if i == 0 && e.from != "" && w.isCurrent(filepath.Dir(path)) {
				w.hear(Event{What: Renamed, Path: path, From: e.from})
			}
			w.hear(Event{What: Appeared, Path: path})
		}
	}
	w.refresh(e.path, e.has(unix.IN_DELETE|unix.IN_DELETE_SELF|unix.IN_MOVED_FROM|unix.IN_MOVE_SELF))
	w.hear(Event{What: Changed})
}

// mostHeard is how many events are told together at most.
const mostHeard = 256

// hear adds an event to those that are told together.
func (w *Watcher) hear(e Event) {
	if w.heard = append(w.heard, e); len(w.heard) >= mostHeard {
		w.tell()
	}
}

// tell tells the listener what was heard.
func (w *Watcher) tell() {
	if len(w.heard) > 0 {
		w.to.Heard(w.heard)
		clear(w.heard)
		w.heard = w.heard[:0]
	}
}

// pathsOf returns the paths of the file that an event is about: several if several watched paths
// lead to its folder.
func (w *Watcher) pathsOf(path string) []string {
	paths := []string{path}
	if also := w.now.Load().also; len(also) > 0 {
		dir, base := filepath.Split(path)
		for _, other := range also[filepath.Clean(dir)] {
			paths = append(paths, filepath.Join(other, base))
		}
	}
	return paths
}

// isCurrent reports whether the path dir still leads to the folder that is watched for it; else
// events of that say nothing about names at the path. For a folder without a watch, it reports
// whether it exists.
func (w *Watcher) isCurrent(dir string) bool {
	e, err := inode.At(dir)
	n, ok := w.now.Load().at[dir]
	return err == nil && (!ok || n == e.Node)
}

// isRemote reports whether a folder is on a file system whose changes may be
// made elsewhere, where no event tells of them.
func isRemote(dir string) bool {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return true
	}
	switch uint32(s.Type) {
	case unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC,
		unix.FUSE_SUPER_MAGIC, unix.V9FS_MAGIC, unix.CEPH_SUPER_MAGIC, unix.AFS_SUPER_MAGIC:
		return true
	}
	return false
}
