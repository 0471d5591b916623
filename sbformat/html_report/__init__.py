"""``report``: a page of HTML about archives, which shows everything by itself: no network, no code of the files."""
