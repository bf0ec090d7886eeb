def estimated_noise(planes): raise NotImplementedError
