package sender

type journal interface {
	Batches
	Replays
}

func setJournal(s *Sender, j journal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.o.Batches, s.o.Replays = j, j
}

func (s *Sender) left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, _ := s.m.Left()
	return n
}
