"""Continue, stop or scale up, and what each rule would have cost in hindsight."""
